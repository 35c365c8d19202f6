"""Errors of engines that share a store and a broker: in leases, fencing and takeovers."""

from msgspec import structs

from simulation.mutants.mutant import Mutant, in_engine


def _shared(mutant: Mutant) -> Mutant:
    """Try simulations with several engines first."""
    return structs.replace(mutant, is_of_sharing=True)


_COMMIT = "            if writing is not None:\n                await writing\n"

SHARING_MUTANTS = tuple(
    map(
        _shared,
        (
            Mutant(
                "the store does not check the epoch",
                "windlass.stores.memory.store",
                "        if newest != epoch:\n",
                "        if False:\n",
            ),
            in_engine(
                "messages are acknowledged before the commit",
                "shard",
                _COMMIT,
                "            await self._broker.acknowledge(self.number, received)\n"
                f"            received = 0\n{_COMMIT}",
            ),
            in_engine(
                "tasks are published before the commit",
                "shard",
                _COMMIT,
                "            await self._broker.publish(changes.tasks, self.lease.epoch)\n"
                f"{_COMMIT}",
            ),
            Mutant(
                "the broker does not deduplicate tasks",
                "windlass.brokers.memory",
                "            if task.task_id not in entries and epoch",
                "            if epoch",
            ),
            # An engine reuses its own counters after another engine owned the shard.
            in_engine(
                "dependency counters are kept across owners",
                "job_table",
                "            job = self.jobs[job_id] = rebuild(plan, snapshot)\n",
                "            job = self.jobs[job_id] = rebuild(plan, snapshot)\n"
                "            counted = vars(self._plans).setdefault('counted', {})\n"
                "            kept = counted.setdefault((job_id, snapshot.job.state.round), job)\n"
                "            job.remaining = kept.remaining\n",
            ),
            in_engine(
                "commits use the newest epoch",
                "shard",
                "        return asyncio.ensure_future(self._store.commit(self.number, self.lease.epoch, changes))\n",
                "        async def write() -> None:\n"
                "            epoch = await self._store.leases.epoch(self.number)\n"
                "            await self._store.commit(self.number, epoch, changes)\n\n"
                "        return asyncio.ensure_future(write())\n",
            ),
            in_engine(
                "tasks are published after a pause without checking the lease",
                "shard",
                "        await self.lease.assert_valid()\n"
                "        await self._broker.publish(tasks, self.lease.epoch)\n",
                "        await self._broker.publish(tasks, 1_000_000)\n",
            ),
            in_engine(
                "a loss of the broker's contents is not noticed",
                "duties.contents_watch",
                "        self.incarnation = incarnation\n",
                "        self.incarnation = self.incarnation or incarnation\n",
            ),
            in_engine(
                "tasks are compared only once with changed contents",
                "duties.sweeper",
                "COMPARISONS = 2\n",
                "COMPARISONS = 1\n",
            ),
            in_engine(
                "a lease that may have expired is renewed without checking its owner",
                "lease_heartbeat",
                "        self._owner.renewed(renewed, until)\n        return Renewal(asked, renewed)\n",
                "        self._owner.renewed(asked, until)\n        return Renewal(asked, asked)\n",
            ),
            in_engine(
                "messages without effect are acknowledged without checking the lease",
                "shard",
                "        await self.lease.assert_valid()\n        if changes.tasks:\n",
                "        if changes.tasks:\n",
            ),
            in_engine("expired leases are never claimed", "leases", " or row.expired", ""),
            in_engine(
                "engines keep more than their share of shards",
                "leases",
                "surplus = kept[fair:]",
                "surplus = kept[99:]",
            ),
            in_engine(
                "a shard is released while a batch is in progress",
                "shard_owner",
                "        try:\n            await owned.running\n        except StaleLease:\n            return\n",
                "",
            ),
            in_engine(
                "an idle former owner does not notice that it lost its shard",
                "duties.sweeper",
                "        await self._shard.check_lease()\n",
                "",
            ),
            in_engine(
                "leases are not renewed",
                "lease_heartbeat",
                "renew(self._engine, asked, self._lease_seconds)",
                "renew(self._engine, {}, self._lease_seconds)",
            ),
        ),
    )
)
