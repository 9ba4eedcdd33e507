#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/model/architecture.h"
#include "src/plan/facts.h"
#include "src/plan/request.h"

// Which plans can exist: the rules that tie a plan's settings to each other, to the model and to
// the cluster. Whether a plan fits in memory is not a rule but a result.
namespace stepcast::plan {

// A micro-batch has at most this many tokens, and at most so many pairs of tokens attend to each
// other in it on each of the ranks that divide its sequences; a step has at most so many
// micro-batches, and of a model's layers and tensors at most so many passes. Beyond real runs, and
// near enough that no count of operations or bytes leaves 64 bits and no step program outgrows the
// memory.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
inline constexpr std::int64_t kMostTokenPairs = std::int64_t{1} << 44;
inline constexpr std::int64_t kMostMicroBatches = 2048;
inline constexpr std::int64_t kMostLayerPasses = std::int64_t{1} << 17;
inline constexpr std::int64_t kMostTensorPasses = std::int64_t{1} << 22;

// Everything that is wrong with the request, in the order of the scenario file's keys. Values that
// are missing from the request are the reader's business, not violations.
std::vector<Violation> Check(const Request& request, const Facts& facts);

// The types of a request ("training.parameter_dtype") that its framework and stage cannot have
// beside its precision, in the order in which they must be left out until the rest is legal: a
// recipe of another framework's, to be completed by this one's defaults. Empty: all may stay.
std::vector<std::string> TypesNotOfFramework(const Request& request);

// Sentences about what was requested and does nothing. The request must be legal.
std::vector<std::string> KeysWithoutEffect(const Request& request);
// And of what does nothing to a model of this architecture.
std::vector<std::string> KeysWithoutEffectOn(const Request& request,
                                             const model::Architecture& architecture);
// Nor to a layer list, whose times and activations are given.
std::vector<std::string> KeysWithoutEffectOnLayerLists(const Request& request);

}  // namespace stepcast::plan
