// Long calls that end when a signal handler of Python raises, as on Ctrl-C.
#pragma once

#include <vector>

#include "cpu/kernels/fps/furthest_point_sample.h"

namespace farpoint {

// Runs the tasks. A call that may take long on the main thread of the process, where Python runs
// its signal handlers, is an error soon after one of them raised. Tasks with a flag of their own
// are left to the caller that raises it.
void run_interruptibly(std::vector<cpu::FpsTask>& tasks, int threads);

}  // namespace farpoint
