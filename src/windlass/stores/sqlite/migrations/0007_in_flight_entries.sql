-- The entries of nodes in flight without a row are [number, node_id, dispatched_at]: later attempts link to the start
-- of the first one, which such a node has not made yet.
update events
   set in_flight = (
       select json_group_array(json_remove(entry.value, '$[2]')) from json_each(events.in_flight) as entry)
 where in_flight is not null;
