// The shards with their owners and leases.

import { Panel } from "../components/controls";
import { Cell, Table } from "../components/table";
import { pluralize } from "../lib/format";
import { Countdown } from "../schedules/countdown_timer";
import type { Shard } from "./types";

const SHARDS_MAX = 256;

export function ShardsPanel({ shards }: { shards: Shard[] }) {
  return (
    <Panel title={pluralize(shards.length, "shard")}>
      <div className="max-h-96 overflow-y-auto">
        <Table
          label="Shards"
          columns={[
            { name: "Shard", right: true },
            { name: "Owner" },
            { name: "Epoch", right: true },
            { name: "Lease expires" },
          ]}
        >
          {shards.slice(0, SHARDS_MAX).map((shard) => (
            <tr key={shard.shard}>
              <Cell right>{shard.shard}</Cell>
              <Cell className="break-all font-mono text-xs">
                {shard.owner ?? <span className="font-sans font-medium text-failed">None</span>}
              </Cell>
              <Cell right>{shard.epoch ?? "–"}</Cell>
              <Cell>
                <Lease shard={shard} />
              </Cell>
            </tr>
          ))}
        </Table>
      </div>
    </Panel>
  );
}

function Lease({ shard }: { shard: Shard }) {
  if (shard.owner === null) {
    return <span className="text-muted">–</span>;
  }
  if (shard.expired) {
    return <span className="font-medium text-failed">Expired</span>;
  }
  if (shard.expires_at === null) {
    return <span className="text-muted">Never</span>;
  }
  return (
    <>
      in <Countdown at={shard.expires_at} />
    </>
  );
}
