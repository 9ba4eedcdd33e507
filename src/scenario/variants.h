#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/plan/legality.h"
#include "src/plan/plan.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/loader.h"
#include "src/scenario/plan_sections.h"
#include "src/scenario/scenario.h"

namespace stepcast::scenario {

// Loads many scenarios of one file with different overrides, as in a sweep. Results and mistakes
// equal the results of Load. Not thread-safe.
//
// Overrides of plan settings and of the number of nodes become values of the request. Only the
// rules are then checked again, which takes some microseconds. Overrides of other keys ("model",
// "training.precision", a removed key) form an override set; the first scenario of each override
// set is read in full.
class Variants {
 public:
  // Loads variants of the scenario that Load(path, fixed, cache) reads. `cache` must outlive this
  // object.
  Variants(std::string path, std::vector<std::string> fixed, InputCache& cache);

  // Returns the result of Load(path, fixed and overrides, cache), except that `resolved` may be
  // empty. Valid until the next call.
  Result<const Scenario*> Load(const std::vector<std::string>& overrides);
  // Returns whether the last two scenarios differ at most in `resolved` and `warnings`, so that the
  // changed setting has no effect. False if unknown.
  bool same_as_before() const { return same_as_before_; }

  // Like Load, but faster, because it creates no messages about rules. Returns the scenario, or
  // null and the violated rules about plans. If no rule is violated, `mistakes` has the mistakes
  // that Load reports.
  struct Tried {
    const Scenario* scenario = nullptr;
    const std::vector<plan::Violation>* broken = nullptr;
    Diagnostics mistakes{};
  };
  Tried Try(const std::vector<std::string>& overrides);

 private:
  // An override "KEY=VALUE" of an earlier call.
  struct Option {
    std::uint32_t number = 0;  // index of the option, or of its key if `is_value`
    bool is_value = false;     // the key is a value of the plan, or `nodes`
    std::string key;
    ReadKey read;                 // sets the value; empty: the value is the number of nodes
    std::optional<Node> section;  // for `read`: a section with only this key
    std::optional<std::int64_t> nodes;
  };
  // Scenarios that differ only in values: their overrides have the same keys in the same order.
  struct Variety {
    std::optional<Loader> loader;  // not set: an override cancels an earlier override
    plan::Request request;         // request of the last scenario, whose options are `read`
    std::vector<const Option*> read;
  };

  const Option& OptionOf(const std::string& text);
  Option MakeOption(const std::string& text);
  Result<const Scenario*> LoadWhole(const std::vector<std::string>& overrides);
  // Returns the scenario as a variant of an earlier scenario, or null. After null, the scenario
  // must be read in full, unless `mistakes` or the loader of `last_` has the reason.
  const Scenario* LoadVariant(const std::vector<std::string>& overrides, Diagnostics& mistakes);
  // Loads the current scenario in the loader of `variety`. Returns false if the scenario is
  // illegal.
  bool Reread(Variety& variety);

  const std::string path_;
  const std::vector<std::string> fixed_;
  InputCache& cache_;
  std::unordered_map<std::string, Option> options_;
  std::unordered_map<std::string, std::uint32_t> keys_;  // keys of values
  std::unordered_map<std::string, std::unique_ptr<Variety>> varieties_;
  // The state of the current call.
  std::vector<const Option*> present_;
  std::string signature_;
  std::string last_signature_;
  Variety* last_ = nullptr;
  Diagnostics mistakes_;
  std::optional<Scenario> whole_;
  // The part of Load's last result that depends on plan values and `nodes`.
  struct Values {
    const Variety* variety = nullptr;  // null: the last result came from another source
    plan::Plan plan;
    std::optional<std::int64_t> nodes;
    bool optimizer_states_assumed = false;
    bool attention_assumed = false;
    friend bool operator==(const Values&, const Values&) = default;
  };
  Values last_values_;
  bool same_as_before_ = false;
};

}  // namespace stepcast::scenario
