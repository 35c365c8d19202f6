// The visible units as cards.

import { useNow } from "../../components/time";
import type { Graph } from "../model/graph";
import type { UnitGraph } from "../model/groups";
import type { JobState, NodeState } from "../model/state";
import type { VisibleCards } from "./card_layer";
import { boxOf, type Scene } from "./scene";
import { countTones, groupTone, TONES } from "./tones";
import { GroupCard, GroupFrame, NodeCard } from "./unit_card";
import { unitName } from "./unit_names";

interface CardsProps {
  graph: Graph;
  unitGraph: UnitGraph;
  scene: Scene;
  cards: VisibleCards;
  state: JobState | null;
  labels: ReadonlyMap<string, string> | undefined;
  at: string | null;
}

const CLOCK_MS = 500;

export function Cards(props: CardsProps) {
  const { unitGraph, scene, cards, state, at } = props;
  const isLive = state !== null && at === null && (state.status === "running" || state.status === "pending");
  const currentTime = useNow(isLive ? CLOCK_MS : null);
  const now = at === null ? currentTime : Date.parse(at);
  const visible = cards.units.filter((unit) => unit < unitGraph.units.length);
  const tabStop = visible.includes(scene.selected) ? scene.selected : visible[0];
  return (
    <>
      {visible.map((number) =>
        unitGraph.units[number]?.kind === "group" ? (
          <Group key={unitGraph.units[number]?.id} {...props} number={number} isTabStop={number === tabStop} />
        ) : (
          <Node key={unitGraph.units[number]?.id} {...props} number={number} isTabStop={number === tabStop} now={now} />
        ),
      )}
    </>
  );
}

type UnitProps = CardsProps & { number: number; isTabStop: boolean };

function Node({ graph, unitGraph, scene, cards, state, labels, number, isTabStop, now }: UnitProps & { now: number }) {
  const member = unitGraph.units[number]?.members[0] ?? -1;
  const node = graph.nodes[member];
  if (!node) {
    return null;
  }
  const nodeState: NodeState | null = state?.nodes[member] ?? null;
  const hasTimer = nodeState !== null && (nodeState.status === "running" || nodeState.status === "waiting");
  return (
    <NodeCard
      number={number}
      {...boxOf(scene.layout, number)}
      node={node}
      state={nodeState}
      loop={nodeState?.loop ?? null}
      label={labels?.get(node.id)}
      isSelected={scene.selected === number}
      isTabStop={isTabStop}
      isZoomedOut={cards.isZoomedOut}
      now={hasTimer ? now : null}
    />
  );
}

function Group({ graph, unitGraph, scene, cards, state, number, isTabStop }: UnitProps) {
  const unit = unitGraph.units[number];
  if (!unit) {
    return null;
  }
  const counts = state && countTones(state, unit.members);
  if (unit.firstMember >= 0) {
    return <GroupFrame {...boxOf(scene.layout, number)} name={unitName(graph, unit)} counts={counts} />;
  }
  const first = graph.nodes[unit.members[0] as number]?.id;
  const last = graph.nodes[unit.members.at(-1) as number]?.id;
  return (
    <GroupCard
      number={number}
      {...boxOf(scene.layout, number)}
      name={unitName(graph, unit)}
      members={`${first} … ${last}`}
      counts={counts}
      tone={counts && (TONES[groupTone(counts)] ?? null)}
      isSelected={scene.selected === number}
      isTabStop={isTabStop}
      isZoomedOut={cards.isZoomedOut}
    />
  );
}
