#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "src/program/program.h"
#include "src/runtime/cuda/effects.h"

// What a collective sends and receives when values are kept in another type than it communicates:
// they are converted into and out of a staging area, one launch for each pair of types.
namespace stepcast::runtime::cuda {

struct CollectiveOperands {
  struct Part {
    std::int64_t elements = 0;  // of the whole collective
    const std::byte* source = nullptr;
    std::byte* target = nullptr;
  };
  std::vector<Part> parts;
  using Conversions = std::vector<std::pair<TypePair, std::vector<MoveWork>>>;
  Conversions before, after;  // the communication
};

// Of the effects that communicate. `at` says where elements are; `staging` is as large as
// Work::staging (launch_plan.h) has it.
CollectiveOperands OperandsOf(const program::Collective& collective, std::int64_t ranks,
                              std::span<const program::Effect> effects,
                              const std::function<std::byte*(const program::Elements&)>& at,
                              std::byte* staging);

}  // namespace stepcast::runtime::cuda
