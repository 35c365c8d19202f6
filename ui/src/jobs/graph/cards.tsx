// The units in sight as cards.

import { useNow } from "../../components/time";
import type { Graph } from "../model/graph";
import type { Drawn } from "../model/groups";
import type { JobState, NodeState } from "../model/state";
import type { InSight } from "./card_layer";
import { boxOf, type Scene } from "./scene";
import { countsOf, groupTone, TONES } from "./tones";
import { GroupCard, GroupFrame, NodeCard } from "./unit_card";
import { nameOf } from "./unit_names";

interface CardsProps {
  graph: Graph;
  drawn: Drawn;
  scene: Scene;
  sight: InSight;
  state: JobState | null;
  marked: ReadonlyMap<string, string> | undefined;
  at: string | null;
}

const CLOCK_MS = 500;

export function Cards(props: CardsProps) {
  const { drawn, scene, sight, state, at } = props;
  const isLive = state !== null && at === null && (state.status === "running" || state.status === "pending");
  const clock = useNow(isLive ? CLOCK_MS : null);
  const now = at === null ? clock : Date.parse(at);
  const shown = sight.cards.filter((unit) => unit < drawn.units.length);
  const first = shown.includes(scene.selected) ? scene.selected : shown[0];
  return (
    <>
      {shown.map((number) =>
        drawn.units[number]?.kind === "group" ? (
          <OneGroup key={drawn.units[number]?.id} {...props} number={number} isFirst={number === first} />
        ) : (
          <OneNode key={drawn.units[number]?.id} {...props} number={number} isFirst={number === first} now={now} />
        ),
      )}
    </>
  );
}

type OneProps = CardsProps & { number: number; isFirst: boolean };

function OneNode({ graph, drawn, scene, sight, state, marked, number, isFirst, now }: OneProps & { now: number }) {
  const member = drawn.units[number]?.members[0] ?? -1;
  const node = graph.nodes[member];
  if (!node) {
    return null;
  }
  const known: NodeState | null = state?.nodes[member] ?? null;
  const isTimed = known !== null && (known.status === "running" || known.status === "waiting");
  return (
    <NodeCard
      number={number}
      {...boxOf(scene.layout, number)}
      node={node}
      state={known}
      loop={known?.loop ?? null}
      mark={marked?.get(node.id)}
      isSelected={scene.selected === number}
      isFirst={isFirst}
      isFar={sight.isFar}
      now={isTimed ? now : null}
    />
  );
}

function OneGroup({ graph, drawn, scene, sight, state, number, isFirst }: OneProps) {
  const unit = drawn.units[number];
  if (!unit) {
    return null;
  }
  const counts = state && countsOf(state, unit.members);
  if (unit.inside >= 0) {
    return <GroupFrame {...boxOf(scene.layout, number)} name={nameOf(graph, unit)} counts={counts} />;
  }
  const first = graph.nodes[unit.members[0] as number]?.id;
  const last = graph.nodes[unit.members.at(-1) as number]?.id;
  return (
    <GroupCard
      number={number}
      {...boxOf(scene.layout, number)}
      name={nameOf(graph, unit)}
      about={`${first} … ${last}`}
      counts={counts}
      tone={counts && (TONES[groupTone(counts)] ?? null)}
      isSelected={scene.selected === number}
      isFirst={isFirst}
      isFar={sight.isFar}
    />
  );
}
