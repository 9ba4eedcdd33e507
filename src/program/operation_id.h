#pragma once

#include <cstdint>

#include "src/program/data_flow.h"

namespace stepcast::program {

// Names one issue of one instruction.
struct OperationId {
  Index instruction = kNone;  // into Program::step; kNone: of the prologue
  std::uint32_t step = 0;     // counts from 0, warm-up included
  friend bool operator==(const OperationId&, const OperationId&) = default;
};

}  // namespace stepcast::program
