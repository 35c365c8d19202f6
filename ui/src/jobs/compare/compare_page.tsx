// Two jobs of one workflow side by side, and where they part.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { jobQuery } from "../../api/queries";
import { Button, Empty, PageHead } from "../../components/controls";
import { Loaded } from "../../components/query_result";
import { Compared } from "./comparison_view";
import { ChooseOther } from "./job_picker";

const route = getRouteApi("/compare");

export function ComparePage() {
  const { left, right } = route.useSearch();
  const navigate = route.useNavigate();
  const [isChoosing, setChoosing] = useState(false);
  if (!left) {
    return (
      <>
        <PageHead title="Compare two jobs" />
        <Empty title="Choose a job first">
          Open one of the{" "}
          <Link to="/" className="text-accent underline">
            jobs
          </Link>{" "}
          and press Compare.
        </Empty>
      </>
    );
  }
  const choose = (other: string) => {
    setChoosing(false);
    void navigate({ search: { left, right: other } });
  };
  return (
    <>
      <PageHead
        title="Compare two jobs"
        actions={
          right && (
            <>
              <Button onClick={() => void navigate({ search: { left: right, right: left }, replace: true })}>
                Swap sides
              </Button>
              <Button onClick={() => setChoosing(!isChoosing)}>
                {isChoosing ? "Keep this one" : "Choose another"}
              </Button>
            </>
          )
        }
      />
      {(isChoosing || !right) && <Choosing jobId={left} onChoose={choose} />}
      {right && !isChoosing && <Compared key={`${left} ${right}`} left={left} right={right} />}
    </>
  );
}

function Choosing({ jobId, onChoose }: { jobId: string; onChoose(jobId: string): void }) {
  const job = useQuery(jobQuery(jobId));
  return <Loaded query={job}>{(found) => <ChooseOther job={found} onChoose={onChoose} />}</Loaded>;
}
