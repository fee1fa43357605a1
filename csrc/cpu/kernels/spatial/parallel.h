// Threads for one call: a fork-join helper and a team with barriers between steps.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace farpoint::cpu {

// Calls body(context, t) for t in [0, threads), t = 0 on the calling thread, and waits for all; for
// fewer t if the system has no more threads. `body` must not throw.
void run_on_threads(int threads, void (*body)(void* context, int thread), void* context);

// Threads that do one step after another together, the calling thread among them. A step is some
// microseconds long, so they spin in between, yielding for the case of more threads than cores.
class Team {
 public:
  // As many threads as asked for, or fewer if the system has no more.
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const { return threads_; }

  // As run_on_threads, on the threads of the team.
  void run(void (*body)(void* context, int thread), void* context);

  // Calls a member function of `owner` on each thread.
  template <auto step, class Owner>
  void run(Owner& owner) {
    run([](void* self, int thread) { (static_cast<Owner*>(self)->*step)(thread); }, &owner);
  }

 private:
  void serve(int thread);

  int threads_ = 1;
  void (*body_)(void*, int) = nullptr;  // null at the end
  void* context_ = nullptr;
  std::atomic<int> round_{0};
  std::atomic<int> done_{0};
  std::vector<std::thread> others_;
};

}  // namespace farpoint::cpu
