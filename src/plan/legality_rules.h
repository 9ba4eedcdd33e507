#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/plan/facts.h"
#include "src/plan/framework.h"
#include "src/plan/framework_style.h"
#include "src/plan/request.h"

// The rules of legality.h, with one file for each topic. Framework-specific rules are in
// src/plan/frameworks. Only files with rules include this header.
namespace stepcast::plan {

// The common base class of the rules.
class Rules {
 public:
  Rules(const Request& request, const Facts& facts, std::vector<Violation>& violations)
      : request_(request), facts_(facts), violations_(violations) {}

 protected:
  void Add(std::string key, std::string code, std::string message, std::string hint) {
    violations_.push_back({std::move(key), std::move(code), std::move(message), std::move(hint)});
  }
  // Returns the frameworks with a trait or style as text for hints: "megatron, fsdp2 or reference".
  static std::string FrameworksWith(bool FrameworkTraits::*trait) {
    std::vector<const char*> names;
    for (const FrameworkTraits& traits : kFrameworkTraits) {
      if (traits.*trait) names.push_back(traits.name);
    }
    return Alternatives(names);
  }
  static std::string FrameworksWith(bool FrameworkStyle::*style) {
    std::vector<const char*> names;
    for (const Framework framework : kFrameworks) {
      if (StyleOf(framework).*style) names.push_back(plan::Name(framework));
    }
    return Alternatives(names);
  }
  static std::string Alternatives(const std::vector<const char*>& names) {
    const std::size_t first = names.size() - 1;
    return fmt::format("{} or {}", fmt::join(names.begin(), names.begin() + first, ", "),
                       names.back());
  }
  bool IsOlderThan(Version version) const {
    return request_.torch && *request_.torch >= kOldestTorch && *request_.torch < version;
  }
  // Returns the number of micro-batches in a step, or no value if it is unknown.
  std::optional<std::int64_t> MicroBatches() const {
    if (request_.gradient_accumulation) return request_.gradient_accumulation;
    const std::optional<std::int64_t> data = DataDegree(request_, facts_.devices);
    if (!request_.global_batch_size || !request_.micro_batch_size || !data) return std::nullopt;
    return *request_.global_batch_size / (*request_.micro_batch_size * *data);
  }

  const Request& request_;
  const Facts& facts_;
  std::vector<Violation>& violations_;
};

void CheckAxes(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckContext(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckExperts(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckLengths(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckLora(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckLoss(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckOffload(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckOptimizer(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckOptimizerStates(const Request& request, const Facts& facts,
                          std::vector<Violation>& violations);
void CheckParts(const Request& request, const Facts& facts, std::vector<Violation>& violations);
void CheckSharding(const Request& request, const Facts& facts, std::vector<Violation>& violations);

}  // namespace stepcast::plan
