-- The entries of nodes in flight without a row are [number, node_id, dispatched_at]: later attempts link to the start
-- of the first one, which such a node has not made yet.
update events
   set in_flight = (
       select json_agg(json_build_array(entry -> 0, entry -> 1, entry -> 3))::text
         from json_array_elements(events.in_flight::json) as entry)
 where in_flight is not null;
