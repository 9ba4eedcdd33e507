#pragma once

#include <string_view>
#include <vector>

#include "src/lowering/program_builder.h"

namespace stepcast::lowering {

// Copies, casts and additions of tensors and layers that are alike: the same kernel twice is one
// entry of the program's table.
class MemoryKernels {
 public:
  explicit MemoryKernels(ProgramBuilder& builder) : builder_(builder) {}

  // `name` outlives this.
  Index Add(std::string_view name, DataType type, Bytes read, Bytes written);

 private:
  struct Known {
    std::string_view name;
    DataType type;
    Bytes read, written;
    Index kernel;
  };

  ProgramBuilder& builder_;
  std::vector<Known> known_;
};

}  // namespace stepcast::lowering
