#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/model/architecture.h"
#include "src/plan/facts.h"
#include "src/plan/request.h"

// The rules that decide whether a plan can exist. They relate its settings to each other, to the
// model and to the cluster. Fitting in memory is not a rule but a result of the forecast.
namespace stepcast::plan {

// Limits of a plan: tokens of a micro-batch; pairs of attending tokens in it, per rank that divides
// its sequences; micro-batches of a step; passes over the model's layers, and over its tensors.
// They exceed real runs, but keep counts of operations and bytes within 64 bits and step programs
// within memory.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
inline constexpr std::int64_t kMostTokenPairs = std::int64_t{1} << 44;
inline constexpr std::int64_t kMostMicroBatches = 2048;
inline constexpr std::int64_t kMostLayerPasses = std::int64_t{1} << 17;
inline constexpr std::int64_t kMostTensorPasses = std::int64_t{1} << 22;

// All errors of the request, in the order of the scenario file's keys. Missing required values are
// reported by the reader, not here.
std::vector<Violation> Check(const Request& request, const Facts& facts);

// The data types in the request ("training.parameter_dtype") that its framework and stage do not
// support with its precision. The keys are in the order in which to remove them until the rest is
// legal; the framework's defaults then apply. Empty: all are supported.
std::vector<std::string> TypesNotOfFramework(const Request& request);

// Warnings about given settings without effect. The request must be legal.
std::vector<std::string> KeysWithoutEffect(const Request& request);
// The same for settings without effect on a model of this architecture.
std::vector<std::string> KeysWithoutEffectOn(const Request& request,
                                             const model::Architecture& architecture);
// The same for layer lists, whose times and activations are given.
std::vector<std::string> KeysWithoutEffectOnLayerLists(const Request& request);

}  // namespace stepcast::plan
