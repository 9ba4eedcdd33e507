#pragma once

#include <cstdint>
#include <string_view>

// Tables of the options that other programs have: one row an option. Importing a file is one loop
// over its settings, which looks each of them up here.
namespace stepcast::foreign {

enum class Effect : std::uint8_t {
  kSets,         // a key of the scenario takes the value
  kNone,         // neither the time of a step nor its memory depends on it
  kNotModelled,  // the forecast leaves it out, unless it has the neutral value
  kRule,         // it says something together with others: the framework's own rules read it
};

struct Option {
  // Dotted, as Setting::name. A star at its end stands for whatever follows: "metrics.*".
  std::string_view name;
  Effect effect = Effect::kSets;
  // kSets: the dotted key of a scenario.
  std::string_view key{};
  // kSets: the program's words and the scenario's, "float32=fp32 bfloat16=bf16"; nothing behind the
  // sign leaves the key out. "bool": the value is true or false, however it is written. Empty: the
  // value is taken as it stands.
  std::string_view words{};
  // kSets and kRule: what holds where the option is not given, as files of the program write it.
  // Empty: the program has no default of its own, or the scenario's default is the same.
  std::string_view standard{};
  // kNotModelled: values at which the option does nothing, separated by spaces. An option without a
  // value does nothing in any case.
  std::string_view neutral{};
  // kNotModelled: what the forecast does instead, and what that may change.
  std::string_view consequence{};
};

constexpr Option Sets(std::string_view name, std::string_view key, std::string_view standard = {},
                      std::string_view words = {}) {
  return {.name = name, .key = key, .words = words, .standard = standard};
}
constexpr Option Switch(std::string_view name, std::string_view key,
                        std::string_view standard = {}) {
  return Sets(name, key, standard, "bool");
}
constexpr Option Rule(std::string_view name, std::string_view standard = {}) {
  return {.name = name, .effect = Effect::kRule, .standard = standard};
}
constexpr Option NoEffect(std::string_view name) { return {.name = name, .effect = Effect::kNone}; }
constexpr Option NotModelled(std::string_view name, std::string_view neutral,
                             std::string_view consequence) {
  return {
      .name = name, .effect = Effect::kNotModelled, .neutral = neutral, .consequence = consequence};
}

}  // namespace stepcast::foreign
