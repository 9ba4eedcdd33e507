#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/runtime/device.h"
#include "src/runtime/executor.h"

// Encodes a measurement as bytes, which ranks send to rank 0. Version 1 contains the words
// "stepcast measurement", the version, the lists of a timeline, and the memory use. Each list
// starts with its length; numbers are encoded as in byte_stream.h. Instructions, steps and times
// are stored as differences from the previous record. An operation's record takes about ten bytes.
namespace stepcast::runtime {

std::string ToBytes(const Measurement& measurement);

// Decodes a measurement. Fails if the bytes are not a complete measurement of this version.
Attempt<Measurement> ToMeasurement(std::string_view bytes);

// Fails unless every record refers to a step below `steps` and to an instruction below
// `instructions`. Call this function before data from another rank is used as indices.
Attempt<void> CheckMeasurement(const Measurement& measurement, std::size_t instructions,
                               std::size_t steps);

}  // namespace stepcast::runtime
