"""Mistakes of engines that share a store and a broker: in leases, fencing, takeovers, and in what they rely on."""

from simulation.mutants.loops import Mutant, in_engine


def _shared(found: Mutant) -> Mutant:
    """To be looked for where engines share, first."""
    return Mutant(found.name, found.module, found.snippet, found.replacement, is_of_sharing=True)


_COMMIT = "            if writing is not None:\n                await writing\n"

SHARING_MUTANTS = tuple(
    map(
        _shared,
        (
            Mutant(
                "no epoch check",
                "windlass.stores.memory.store",
                "        if newest != epoch:\n",
                "        if False:\n",
            ),
            in_engine(
                "ack before commit",
                "shard",
                _COMMIT,
                "            await self._broker.acknowledge(self.number, gathered)\n"
                f"            gathered = 0\n{_COMMIT}",
            ),
            in_engine(
                "release before commit",
                "shard",
                _COMMIT,
                f"            await self._broker.publish(changes.tasks)\n{_COMMIT}",
            ),
            Mutant(
                "no dispatch dedupe",
                "windlass.brokers.memory",
                "            if task.task_id not in entries:\n",
                "            if True:\n",
            ),
            # Each engine remembers how many parents of a node are open, and believes it after another had the shard.
            in_engine(
                "counter instead of rows",
                "recovery",
                "                    jobs[job_id] = rebuild(plan, restored)\n",
                "                    jobs[job_id] = rebuild(plan, restored)\n"
                "                    counted = vars(self._plans).setdefault('counted', {})\n"
                "                    kept = counted.setdefault((job_id, restored.job.round), jobs[job_id])\n"
                "                    jobs[job_id].remaining = kept.remaining\n",
            ),
            in_engine(
                "commits go by whatever epoch is the newest",
                "shard",
                "        return asyncio.ensure_future(self._store.commit(self.number, self.epoch, changes)) if",
                "        async def write() -> None:\n"
                "            epoch = await self._store.leases.epoch(self.number)\n"
                "            await self._store.commit(self.number, epoch, changes)\n\n"
                "        return asyncio.ensure_future(write()) if",
            ),
            in_engine(
                "what was stored before a pause is released after it",
                "shard",
                "        await self._assure()\n        await self._broker.publish(tasks)\n",
                "        await self._broker.publish(tasks)\n",
            ),
            in_engine(
                "a lease that may be over is renewed without a look at whose it is",
                "shard",
                "            if (self.number, self.owner, epoch) not in [",
                "            if False and () not in [",
            ),
            in_engine(
                "what changes nothing is acknowledged by whoever read it",
                "shard",
                "        await self._assure()\n        if changes.tasks:\n",
                "        if changes.tasks:\n",
            ),
            in_engine("an expired lease is nobody's to take", "leases", " or row.expired", ""),
            in_engine("engines keep more than their part", "leases", "surplus = kept[fair:]", "surplus = kept[99:]"),
            in_engine(
                "a shard is given back with a batch under way",
                "engine",
                "        try:\n            await holding.running\n        except StaleLease:\n            return\n",
                "",
            ),
            in_engine(
                "an owner with nothing to store never learns that it is none",
                "duties.sweeper",
                "        await self._shard.check_lease()\n",
                "",
            ),
            in_engine(
                "leases are not renewed",
                "leases",
                "beat(self._owner, epochs, self._lease_seconds)",
                "beat(self._owner, {}, self._lease_seconds)",
            ),
        ),
    )
)
