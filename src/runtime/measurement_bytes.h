#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/runtime/device.h"
#include "src/runtime/executor.h"

// A measurement as bytes, as ranks send it to rank 0. Version 1: the words "stepcast measurement",
// the version, then the lists of a timeline and the memory use, each list with its length first,
// numbers as byte_stream.h writes them, instructions, steps and times as differences to the record
// before. A record of an operation takes about ten bytes.
namespace stepcast::runtime {

std::string ToBytes(const Measurement& measurement);

// Fails when the bytes are no measurement of this version, or not whole.
Attempt<Measurement> ToMeasurement(std::string_view bytes);

// Whether its records are of a program with so many instructions in a step, in so many steps: what
// another rank sends is checked before it is used for indices.
Attempt<void> CheckMeasurement(const Measurement& measurement, std::size_t instructions,
                               std::size_t steps);

}  // namespace stepcast::runtime
