// Stores that other threads do not see yet, as the memory model of PTX allows.
//
// PTX ISA 9.0, section 8: what a thread stores is seen by others in no promised order, or not at
// all, until a barrier, a fence or the end of the kernel orders it. So each thread keeps its last
// stores to itself; they reach memory in a random order, those to the same bytes in theirs, when
// one of these says so, or by chance. What a thread left unordered when it ended reaches memory
// with the end of the launch. Strong stores (st.relaxed) are messages between blocks: no
// barrier orders them for other blocks, which see them in the end.
#pragma once

#include <cstddef>
#include <cstdint>

namespace executor {

void store(void* to, const void* from, size_t bytes, bool strong);
// Memory as the running thread sees it: with its own stores.
void load(void* to, const void* from, size_t bytes);
// The running thread's stores to these bytes reach memory: an atomic operation works there.
void settle(const void* at, size_t bytes);

// The running thread's stores that are not meant for other blocks, or a few by chance.
void drain_to_block();
void drain_by_chance();

// Called by the machine.
void begin_stores(size_t threads);
void end_thread_stores();
void drain_ended_by_chance();
// `shared` is the memory that ends with a block.
void forget_stores(const unsigned char* shared, size_t bytes);
void end_launch_stores();

}  // namespace executor
