"""Files sampled by actors of Ray Data: the plan, the rows and the outputs of the command."""

import logging
import pickle
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack, redirect_stdout
from typing import TYPE_CHECKING, Any

from farpoint.cli.sample.options import Options
from farpoint.cli.sample.plan import Task
from farpoint.cli.sample.work import Done, sample_file
from farpoint.errors import FailedPreconditionError, InvalidArgumentError
from farpoint.io.decoder import Decoder
from farpoint.io.files import require
from farpoint.ray import MAX_POINTS, OpsSampler

if TYPE_CHECKING:
    from farpoint.cli.sample.run import Bar

Row = dict[str, Any]
# An actor gets so many at a time, and does them again if it dies.
_FILES_AT_A_TIME = 8


class RayPool:
    """Runs tasks on the cluster that RAY_ADDRESS names, or this machine is part of, or on its own.

    Every node must see the files: a shared file system, or paths of fsspec.

    Args:
        options: of the command. Without `jobs` there are as many actors as the cluster has cores,
            or as its GPUs have capacity for.
    """

    def __init__(self, options: Options) -> None:
        try:
            self._ray = require("ray", "--ray", "ray")
            self._data = require("ray.data", "--ray", "ray")
        except ValueError as error:
            raise FailedPreconditionError(str(error)) from error
        self._options, self._gpus = options, options.gpus
        self._closed = threading.Event()
        self._redirection = ExitStack()

    def run(self, tasks: Sequence[Task], bar: "Bar") -> "list[Future[Done]]":
        """Begins all of them."""
        # Ray prints what befalls its workers on standard output, which is for results.
        self._redirection.enter_context(redirect_stdout(sys.stderr))
        if not self._ray.is_initialized():
            self._ray.init(log_to_driver=False, logging_level=logging.WARNING)
            self._redirection.callback(self._ray.shutdown)
        logging.getLogger("ray.data").setLevel(logging.WARNING)
        self._data.DataContext.get_current().enable_progress_bars = False
        futures: list[Future[Done]] = [Future() for _ in tasks]
        rows = self._rows(tasks)
        threading.Thread(target=self._follow, args=(rows, futures, bar), daemon=True).start()
        return futures

    def close(self) -> None:
        """Ends the job, if it still runs, with the connection to the cluster."""
        self._closed.set()
        self._redirection.close()

    def _rows(self, tasks: Sequence[Task]) -> Any:
        actors = min(len(tasks), self._options.jobs or self._capacity())
        blocks = -(-len(tasks) // _FILES_AT_A_TIME)
        items = self._data.from_items(
            [{"index": index} for index in range(len(tasks))],
            override_num_blocks=max(blocks, min(actors, len(tasks))),
        )
        return items.map(
            _FileSampler,
            fn_constructor_args=(
                self._ray.put(list(tasks)),
                self._options,
                "cuda" if self._gpus else "cpu",
            ),
            num_cpus=1,
            num_gpus=self._gpus,
            compute=self._data.ActorPoolStrategy(size=actors),
        )

    def _capacity(self) -> int:
        resources = self._ray.cluster_resources()
        capacity = resources.get("CPU", 0.0)
        if self._gpus:
            capacity = min(capacity, resources.get("GPU", 0.0) / self._gpus)
        if capacity < 1:
            raise InvalidArgumentError(
                f"--gpus {self._gpus:g}: the cluster has {resources.get('CPU', 0):g} cores and "
                f"{resources.get('GPU', 0):g} GPUs, which is not enough for one actor",
                field="gpus",
            )
        return int(capacity)

    def _follow(self, rows: Any, futures: "list[Future[Done]]", bar: "Bar") -> None:
        """Ends the futures in whatever order their rows come."""
        try:
            for row in rows.iter_rows():
                future, outcome = futures[row["index"]], pickle.loads(row["outcome"])
                if isinstance(outcome, Done):
                    future.set_result(outcome)
                else:
                    future.set_exception(outcome)
                bar.advance(outcome.points if isinstance(outcome, Done) else 0)
                if self._closed.is_set():
                    return
        except Exception as error:  # of Ray, which has given up
            for future in futures:
                if not future.done():
                    future.set_exception(error)


class _FileSampler:
    """An actor's: made once in it, called for each file."""

    def __init__(self, tasks: Any, options: Options, device: str) -> None:
        import ray

        self._decoder = Decoder(options.bounds)
        self._tasks: list[Task] = ray.get(tasks)
        self._options = options
        self._sampler = OpsSampler(device)

    def __call__(self, row: Row) -> Row:
        task = self._tasks[row["index"]]
        try:
            outcome: Done | Exception = sample_file(
                self._sampler, self._decoder, task, self._options, MAX_POINTS
            )
        except Exception as error:  # of one file, which ends no job
            outcome = error
        return {**row, "outcome": pickle.dumps(outcome)}

    def __del__(self) -> None:
        self._decoder.close()
