// Memory traffic of translated kernels, counted where the translation asks for it.
//
// Lanes of a warp run one after another here, so what a GPU would do as one request comes in
// pieces: those of one instruction, executed for the same time by each lane since the lanes last
// met, are one request. Between two meetings that is exact for loops that all lanes enter alike.
#pragma once

#include <cstddef>
#include <cstdint>

namespace model::traffic {

enum class Access { kLoad, kStore, kAtomic };
enum class Space { kGlobal, kShared };

// Sums since they were last taken. A sector has 32 bytes.
struct Totals {
  int64_t useful_bytes;      // that lanes asked of global memory
  int64_t requests;          // of warps, to global memory
  int64_t sectors;           // that they touch: without L1
  int64_t ideal_sectors;     // that as many bytes would take side by side
  int64_t l1_sectors;        // the same, a block loading each sector once; stores are written through
  int64_t launch_sectors;    // each read once and written once by a launch: without L2's misses
  int64_t shared_requests;   // of warps
  int64_t wavefronts;        // that they take, with bank conflicts
  int64_t ideal_wavefronts;  // without
  int64_t instructions;      // of lanes, PTX
};

// The running thread executes the memory instruction `site` of its kernel.
void touch(int site, Access access, Space space, uint64_t address, size_t bytes);
// It comes to an instruction at which the lanes of its warp meet.
void meet();
extern int64_t instructions;

Totals take();

// Called by the machine.
void end_block();
void end_launch();

}  // namespace model::traffic
