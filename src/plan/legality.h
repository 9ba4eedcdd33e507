#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/model/architecture.h"
#include "src/plan/facts.h"
#include "src/plan/request.h"

// The rules that decide whether a plan can exist. They relate the plan's settings to each other, to
// the model and to the cluster. Whether the plan fits in memory is not a rule but a result of the
// forecast.
namespace stepcast::plan {

// The largest values that a plan may have, so that counts of operations and bytes stay within 64
// bits and step programs within memory. The limits are: tokens of a micro-batch; pairs of tokens
// that attend to each other in a micro-batch, per rank that divides the sequences; micro-batches of
// a step; passes over the model's layers; and passes over its tensors. Real runs stay below these
// limits.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
inline constexpr std::int64_t kMostTokenPairs = std::int64_t{1} << 44;
inline constexpr std::int64_t kMostMicroBatches = 2048;
inline constexpr std::int64_t kMostLayerPasses = std::int64_t{1} << 18;
inline constexpr std::int64_t kMostTensorPasses = std::int64_t{1} << 22;

// Returns all errors of the request, in the order of the scenario file's keys. The reader, not this
// function, reports missing required values.
std::vector<Violation> Check(const Request& request, const Facts& facts);

// Returns the keys of requested data types ("training.parameter_dtype") that the framework does not
// support at this stage and precision. If these keys are removed in this order until the rest is
// legal, the framework's defaults apply. Empty if all types are supported.
std::vector<std::string> TypesNotOfFramework(const Request& request);

// Returns warnings about given settings that have no effect. The request must be legal.
std::vector<std::string> KeysWithoutEffect(const Request& request);
// Returns warnings about given settings that have no effect on a model of this architecture.
std::vector<std::string> KeysWithoutEffectOn(const Request& request,
                                             const model::Architecture& architecture);
// Returns warnings about given settings that have no effect on layer lists, whose times and
// activations are given.
std::vector<std::string> KeysWithoutEffectOnLayerLists(const Request& request);

}  // namespace stepcast::plan
