"""What no engine could ever hold is refused before it is queued."""

from collections.abc import Sequence
from dataclasses import dataclass

from farpoint_server.codec.sample_request import Plan
from farpoint_server.engine.engine import Engine
from farpoint_server.memory.estimate import sample_bytes


@dataclass(frozen=True)
class MemoryBound:
    """All engines, any of which may get a request."""

    engines: Sequence[Engine]

    def check(self, plan: Plan) -> None:
        """Raises TooLargeError if the longest cloud does not fit; requests are cut between them."""
        counts = plan.sample_counts
        longest = int(plan.lengths.argmax()) if len(plan.lengths) > 1 else 0
        samples = int(counts[longest if len(counts) > 1 else 0])
        for engine in self.engines:
            engine.check(sample_bytes(int(plan.lengths[longest]), 1, samples))
