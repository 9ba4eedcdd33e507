#pragma once

#include <string>
#include <vector>

// What tests set and ask beside the interfaces of CUDA, cuBLASLt and NCCL.
//
// Environment: EMULATED_GPUS, how many GPUs there are (1); EMULATED_ORDER, the seed of the order in
// which operations that may run in any order do (1); CUDA_VISIBLE_DEVICES, as CUDA has it for
// numbers.
namespace emulated {

// From now on the calls of the three libraries that may fail are counted from 1, by all threads
// together, and call `number` fails; 0: none. What only frees or asks for an error does not count.
void FailCall(int number);
// How many were counted since, and the name of the one that failed ("cudaMalloc"); "": none did.
int Calls();
std::string FailedCall();

// How often `name` ("cudaEventRecord", "cudaLaunchKernelEx", "ncclCommInitRankConfig") was called
// since the last FailCall.
int CallsOf(const std::string& name);

}  // namespace emulated
