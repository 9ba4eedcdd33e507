#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/foreign/draft.h"
#include "src/foreign/setting.h"
#include "src/foreign/tables.h"
#include "src/scenario/family_expression.h"
#include "src/scenario/source_names.h"

namespace stepcast::foreign {

// The options of other programs, by which an import converts each setting of a file. The options
// are in tables/*.yaml:
//
//   rules: bf16 clip-grad=1.0        # kRule: names, with defaults
//   sets:                            # kSets
//     micro-batch-size: training.micro_batch_size
//     optimizer: {key: training.optimizer, default: adam, words: adam=adamw sgd=sgd}
//   not_modelled:                    # kNotModelled
//     main-params-dtype: {neutral: fp32, assumption: the optimizer stores the parameters in FP32}
//   no_effect: seed save-*           # kNone
//
// Options with the same meaning are in one row, separated by spaces. If several names with a star
// match, the first one has priority, in the order of the sections above.

enum class Effect : std::uint8_t {
  kSets,         // sets a scenario key
  kNone,         // no effect on step time or memory
  kNotModelled,  // ignored by the forecast; neutral values have no effect
  kRule,         // read by the framework's rules, together with other options
};

struct Option {
  // The dotted name, like Setting::name. A star at the end matches any text, as in "metrics.*".
  std::string_view name{};
  Effect effect = Effect::kSets;
  // For kSets: the dotted key of the scenario.
  std::string_view key{};
  // For kSets: pairs of the program's word and the scenario's word, such as "float32=fp32
  // bfloat16=bf16". If the scenario's word is empty, the key is not set. "bool" means true or false
  // in any spelling. If `words` is empty, the value is copied.
  std::string_view words{};
  // For kSets and kRule: the option's default, spelled as in the program's files. Empty if there is
  // no default, or if the program and the scenario have the same default.
  std::string_view standard{};
  // For kNotModelled: the values without effect, separated by spaces. An option without a value has
  // no effect.
  std::string_view neutral{};
  // For kNotModelled: the forecast's assumption, and its effect on the results.
  std::string_view consequence{};
};

// Returns the options of a table, which must outlive them.
std::vector<Option> OptionsIn(const scenario::YamlNode& table);

// The table of a program, with its options.
struct ProgramTable {
  const scenario::YamlNode& sections;
  std::vector<Option> options;
};

template <std::string_view (*kText)()>
const ProgramTable& Program() {
  static const ProgramTable program{Table<kText>(), OptionsIn(Table<kText>())};
  return program;
}

class Reading;

// A program with configurations that can be imported, in one of its formats.
struct Framework {
  std::string_view name;     // "torchtitan"
  std::string_view form;     // "torchtitan's configuration in TOML"
  std::string_view release;  // commit or release of the defaults: "238fa9953e4a"
  const ProgramTable& (*table)();
  // Reads options that depend on other options. Called after all rows of all files are read. May be
  // null.
  void (*rules)(Reading& reading);
  // Whether the file supplements files of another program. The other program's files are read
  // first.
  bool adds_to_others = false;
};

// Information from other files that affects how a file is interpreted. Each member may be empty.
struct Surroundings {
  std::function<std::optional<std::int64_t>()> devices{};        // number of GPUs of the cluster
  std::function<std::optional<std::int64_t>()> gpus_per_node{};  // GPUs per node of the cluster
  std::function<std::optional<std::int64_t>()> hidden_size{};    // hidden size of the model
  std::function<std::optional<std::int64_t>()> layers{};         // number of layers of the model
  std::function<std::optional<std::int64_t>()> experts{};        // number of experts; 0: dense
  // Returns whether one of the files belongs to the framework `name`.
  std::function<bool(std::string_view)> has_file_of{};
  // Returns the value of an option in accelerate's file as text. Empty if the option is not set.
  std::function<std::string(std::string_view)> accelerate_option{};
};

// Reads one file into a draft, as a configuration of one framework. The constructor's arguments
// must outlive this object.
class Reading {
 public:
  Reading(const Framework& framework, const Document& document, Draft& draft,
          const Surroundings& surroundings)
      : framework_(framework),
        options_(framework.table().options),
        document_(document),
        draft_(draft),
        surroundings_(surroundings) {}

  // Applies the row of each setting. Settings without a row become omissions.
  void ReadRows();
  // Reads options that depend on other options.
  void ReadRules() {
    if (framework_.rules != nullptr) framework_.rules(*this);
  }
  // Applies the framework's defaults for options that the file does not set.
  void ReadDefaults();

  // Functions for rules:

  // Applies the rules of a section of the program's table, in their order. A rule does one of
  // these:
  //
  //   {set: KEY, integer: OPTION}       # SetInteger; holds if the option has an integer
  //   {set: KEY, number: OPTION}        # SetNumber
  //   {set: KEY, switch: OPTION}        # true or false
  //   {set: KEY, words: PAIRS, of: OPTION}             # WordFor; holds if the option has a word
  //   {set: KEY, value: WORD, because: OPTION}
  //   {set: KEY, to: EXPRESSION, because: OPTION}      # or by: EXPRESSION, the option's name
  //   {omit: OPTION, assumption: TEXT}
  //   {let: NAME, to: EXPRESSION}       # a name for other expressions
  //   {all: RULES}                      # applies all rules
  //   {first: RULES}                    # applies the first rule whose condition holds
  //
  // Each rule can have a condition: `if: EXPRESSION`, or `on: OPTION`, which is also the option
  // because of which a key is set. Expressions (scenario/family_expression.h) contain names of
  // options, with underscores for hyphens: `a_b` is IsOn("a-b"). `text.NAME`, `integer.NAME`,
  // `number.NAME` and `stated.NAME` are the values of the functions below. `key.KEY` is the
  // text of a scenario key, and `degree.KEY` is its integer, or 1.
  void Apply(std::string_view section) { Apply(framework_.table().sections, section); }
  // Applies the rules of a section of another table.
  void Apply(const scenario::YamlNode& table, std::string_view section);

  // Returns the option's value or, if the file does not set it, the default in the option's row.
  // None for null values.
  std::optional<Value> Get(std::string_view name) const;
  std::optional<std::int64_t> Integer(std::string_view name) const;
  bool IsOn(std::string_view name) const;
  std::string Text(std::string_view name) const;  // may be empty
  // Returns the file's setting for the option. Null if the option is missing or has no value.
  const Setting* Stated(std::string_view name) const;
  // Returns whether the framework's rules read the option.
  bool HasRule(std::string_view name) const;

  // Sets the key because of the option `because_of`. The origin is the option's position in the
  // file or, if the file does not set it, the framework's default.
  void Set(std::string_view key, ScenarioValue value, std::string_view because_of,
           std::string remark = {});
  // Sets the key if the option is on.
  void SetIfOn(std::string_view key, ScenarioValue value, std::string_view option) {
    if (IsOn(option)) Set(key, std::move(value), option);
  }
  // Sets the key to the option's value if the value is an integer.
  void SetInteger(std::string_view key, std::string_view option);
  // Sets the key to the option's value if the value is a number.
  void SetNumber(std::string_view key, std::string_view option);
  // Records that the forecast ignores the option, if the file sets it.
  void Omit(std::string_view name, std::string consequence);
  // Reports an invalid value of the option.
  void Wrong(std::string_view name, std::string message, std::string hint);

  Draft& draft() { return draft_; }
  const Document& document() const { return document_; }
  std::optional<std::int64_t> devices() const {
    return surroundings_.devices ? surroundings_.devices() : std::nullopt;
  }
  std::optional<std::int64_t> gpus_per_node() const {
    return surroundings_.gpus_per_node ? surroundings_.gpus_per_node() : std::nullopt;
  }
  std::optional<std::int64_t> hidden_size() const {
    return surroundings_.hidden_size ? surroundings_.hidden_size() : std::nullopt;
  }
  std::optional<std::int64_t> layers() const {
    return surroundings_.layers ? surroundings_.layers() : std::nullopt;
  }
  std::optional<std::int64_t> experts() const {
    return surroundings_.experts ? surroundings_.experts() : std::nullopt;
  }
  bool has_file_of(std::string_view framework) const {
    return surroundings_.has_file_of && surroundings_.has_file_of(framework);
  }
  std::string accelerate_option(std::string_view name) const {
    return surroundings_.accelerate_option ? surroundings_.accelerate_option(name) : std::string();
  }
  // Returns whether DeepSpeed trains the model, according to its file or accelerate's file.
  bool under_deepspeed() const {
    return has_file_of("DeepSpeed") || accelerate_option("distributed_type") == "DEEPSPEED";
  }
  // Returns the origin of a default, such as "torchtitan's default at 238fa9953e4a".
  std::string DefaultOrigin() const;

 private:
  const Option* RowOf(std::string_view name) const;
  bool ApplyRule(const scenario::YamlNode& rule);              // whether the rule's condition holds
  scenario::FamilyValue ValueOf(std::string_view name) const;  // of a name in an expression
  void ReadRow(const Option& option, const Setting& setting);
  // Reports the unknown variable on which the option's value depends.
  void AskFor(const Setting& setting) const;

  const Framework& framework_;
  const std::vector<Option>& options_;
  const Document& document_;
  Draft& draft_;
  const Surroundings& surroundings_;
  std::map<std::string, scenario::FamilyValue, std::less<>> locals_;  // set by `let`
};

// Returns a file's value in the scenario's spelling: true or false for "yes" and "Off", 1000000000
// for "1e9". Other text is unchanged.
std::string ScenarioWords(const Value& value);

// Returns the words in `list`, which are separated by spaces.
std::vector<std::string_view> SplitWords(std::string_view list);
using scenario::HasWord;

// Returns the pairs in a list such as "float32=fp32 bfloat16=bf16".
std::vector<std::pair<std::string_view, std::string_view>> SplitPairs(std::string_view list);

// Returns the scenario's word for `foreign`, or none, from a list such as "float32=fp32
// bfloat16=bf16".
std::optional<std::string_view> WordFor(std::string_view words, std::string_view foreign);

}  // namespace stepcast::foreign
