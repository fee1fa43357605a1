"""What no engine could ever hold is refused before it is queued."""

from collections.abc import Sequence
from dataclasses import dataclass

from farpoint_server.codec.sample_request import Plan
from farpoint_server.errors import TooLargeError
from farpoint_server.memory.failures import TooLarge
from farpoint_server.memory.manager import Manager
from farpoint_server.memory.prediction import sample_bytes


@dataclass(frozen=True)
class MemoryBound:
    """The managers of all engines, any of which may get a request."""

    managers: Sequence[Manager]

    def check(self, plan: Plan) -> None:
        """Raises TooLargeError if the longest cloud does not fit; requests are cut between them."""
        counts = plan.sample_counts
        longest = int(plan.lengths.argmax()) if len(plan.lengths) > 1 else 0
        samples = int(counts[longest if len(counts) > 1 else 0])
        try:
            for manager in self.managers:
                manager.check(sample_bytes(int(plan.lengths[longest]), 1, samples))
        except TooLarge as error:
            raise TooLargeError(str(error)) from error
