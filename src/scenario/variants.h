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

// Scenarios of one file under overrides that differ from one to the next, as in a sweep: what Load
// makes of each, mistakes included, in some microseconds where only settings of the plan and
// numbers of nodes differ. Everything else about a file is then read once: overrides of such keys
// become values of the request, and the rules are gone through again. Where a rule is broken, Load
// says how; other keys ("model", "training.precision", one that is taken out) make another variety,
// read as a whole the first time. Not to be used by two threads at once.
class Variants {
 public:
  // Of what Load(path, fixed, cache) reads. The cache must outlive this.
  Variants(std::string path, std::vector<std::string> fixed, InputCache& cache);

  // What Load(path, fixed and overrides, cache) gives, until the next call, but for `resolved`,
  // which may be empty.
  Result<const Scenario*> Load(const std::vector<std::string>& overrides);
  // Whether the last two calls of Load gave scenarios that differ at most in `resolved` and
  // `warnings`, because the value that differs has no effect beside the others. It is false when
  // that is not known.
  bool same_as_before() const { return same_as_before_; }

  // The same without words: the scenario, or null and the rules about plans that are broken, some
  // microseconds either way. Without such rules `mistakes` has what Load says.
  struct Tried {
    const Scenario* scenario = nullptr;
    const std::vector<plan::Violation>* broken = nullptr;
    Diagnostics mistakes{};
  };
  Tried Try(const std::vector<std::string>& overrides);

 private:
  // A "KEY=VALUE" that was seen.
  struct Option {
    std::uint32_t number = 0;  // of the option, or of its key where `is_value`
    bool is_value = false;     // it is a value of the plan, or `nodes`
    std::string key;
    ReadKey read;                 // sets the value; empty: it is the number of nodes
    std::optional<Node> section;  // for `read`: a section with this key alone
    std::optional<std::int64_t> nodes;
  };
  // Scenarios that differ in values alone. Their keys are the same, in the same order.
  struct Variety {
    std::optional<Loader> loader;  // none: an override undoes a value that one before it sets
    plan::Request request;         // of the last one, whose options these were:
    std::vector<const Option*> read;
  };

  const Option& OptionOf(const std::string& text);
  Option MakeOption(const std::string& text);
  Result<const Scenario*> LoadWhole(const std::vector<std::string>& overrides);
  // The scenario as a variant of one that was read; null: `last_` says what refuses it, if that is
  // known, else reading it as a whole does.
  const Scenario* LoadVariant(const std::vector<std::string>& overrides, Diagnostics& mistakes);
  // Sets the variety's loader to this one of its scenarios; false: it is none.
  bool Reread(Variety& variety);

  const std::string path_;
  const std::vector<std::string> fixed_;
  InputCache& cache_;
  std::unordered_map<std::string, Option> options_;
  std::unordered_map<std::string, std::uint32_t> keys_;  // of values
  std::unordered_map<std::string, std::unique_ptr<Variety>> varieties_;
  // Of the present call.
  std::vector<const Option*> present_;
  std::string signature_;
  std::string last_signature_;
  Variety* last_ = nullptr;
  Diagnostics mistakes_;
  std::optional<Scenario> whole_;
  // What the last call of Load gave, as far as values of the plan and `nodes` decide it.
  struct Values {
    const Variety* variety = nullptr;  // null: it gave something else
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
