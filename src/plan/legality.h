#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/model/architecture.h"
#include "src/plan/facts.h"
#include "src/plan/request.h"

// The rules that decide whether a plan is legal: how its settings relate to each other, to the
// model and to the cluster. Whether the plan fits in memory is decided by the forecast.
namespace stepcast::plan {

// Upper limits of a plan. With these limits, numbers of operations and bytes fit in 64 bits, and
// step programs fit in memory. In order: tokens per micro-batch, pairs of tokens that attend to
// each other per micro-batch and context-parallel rank, micro-batches per step, passes over the
// model's layers, and passes over its tensors.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
inline constexpr std::int64_t kMostTokenPairs = std::int64_t{1} << 44;
inline constexpr std::int64_t kMostMicroBatches = 2048;
inline constexpr std::int64_t kMostLayerPasses = std::int64_t{1} << 18;
inline constexpr std::int64_t kMostTensorPasses = std::int64_t{1} << 22;

// Returns all errors of the request, in the order of the scenario file's keys. The reader reports
// missing required values.
std::vector<Violation> Check(const Request& request, const Facts& facts);

// Returns the keys of requested data types ("training.parameter_dtype") that the framework does not
// support at this stage and precision. Callers remove the keys in this order until the request is
// legal; the framework's defaults then apply. Empty: all types are supported.
std::vector<std::string> TypesNotOfFramework(const Request& request);

// Returns warnings about settings in the request that have no effect. The request must be legal.
std::vector<std::string> KeysWithoutEffect(const Request& request);
// Returns warnings about settings in the request that have no effect on a model of this
// architecture.
std::vector<std::string> KeysWithoutEffectOn(const Request& request,
                                             const model::Architecture& architecture);
// Returns warnings about settings in the request that have no effect on layer lists, whose times
// and activations are input.
std::vector<std::string> KeysWithoutEffectOnLayerLists(const Request& request);

}  // namespace stepcast::plan
