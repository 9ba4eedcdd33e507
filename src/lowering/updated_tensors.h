#pragma once

#include <cstdint>
#include <vector>

#include "src/lowering/program_builder.h"

// What an optimizer updates on a rank.
namespace stepcast::lowering {

// A tensor as the optimizer has it, not an empty one.
struct UpdatedTensor {
  int tensor = 0;  // of the model; of several behind one another the first, or -1
  std::int64_t elements = 0;
};

// How Muon puts together matrices of which ranks have rows: by all-to-alls over these ranks.
struct MatrixExchange {
  StreamId stream = 0;
  Index communicator = program::kNone;  // kNone: every rank has whole matrices
  std::int64_t ranks = 1;
};

// What the optimizer has on this rank.
struct UpdatedTensors {
  std::int64_t elements = 0;             // of all together, with padding that is updated, too
  std::vector<UpdatedTensor> tensors{};  // in the optimizer's order
  MatrixExchange exchange{};
  StreamId stream = program::Program::kComputeStream;  // that updates them
};

}  // namespace stepcast::lowering
