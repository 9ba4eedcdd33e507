#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"

// What a configuration of another program says, before anything is known of its meaning.
namespace stepcast::foreign {

// A value as it stands in the file.
struct Value {
  enum class Kind : std::uint8_t {
    kNothing,     // null, or a key without a value
    kText,        // a number, a word, a string
    kList,        // of scalars; lists of mappings have no items
    kExpression,  // what a program would compute: `text` is its source
  };

  Kind kind = Kind::kNothing;
  std::string text{};  // kText: quotes and escapes resolved
  std::vector<std::string> items{};
  // Variables that the value depends on and that are not known; where there are any, it is not.
  std::vector<std::string> unknown{};
  // What the file compares such a variable with, for hints.
  std::vector<std::string> known_words{};

  static Value Text(std::string text) { return {Kind::kText, std::move(text), {}, {}, {}}; }

  // Whole numbers are also read as `1e9`, `1_000` and `2.0`, as Python and JSON files have them.
  std::optional<std::int64_t> Integer() const;
  std::optional<double> Number() const;
  // Words of YAML 1.1, TOML, JSON and Python: yes, on, True, 1.
  std::optional<bool> Boolean() const;
  // The items of a list, or the words of a text that stands in its place: `moe_act layernorm`,
  // `moe_act,layernorm`.
  std::vector<std::string> Words() const;
  // The value on one line, for messages and comments.
  std::string Shown() const;
};

// An option and its value. `name` is dotted: "training.seq_len"; command-line options have no
// hyphens before them.
struct Setting {
  std::string name;
  Value value;
  Location location{};
  std::string written{};        // the name as the file has it, where `name` is another
  std::string written_value{};  // the same of the value
};

// A file's settings in its order.
struct Document {
  // No configuration has more settings, each of which is looked for among the others, or longer
  // names.
  static constexpr std::size_t kMostSettings = 10'000, kLongestName = 1'000;

  std::string file;
  std::vector<Setting> settings{};
  // Where a file goes beyond that; what follows is left out.
  std::optional<Location> too_large{};

  // Whether there is room for a setting of that name, or for names below it.
  bool HasRoomFor(std::string_view name, const Location& location);

  // The last setting of that name, which is the one that holds; null: there is none.
  const Setting* Find(std::string_view name) const;
  // Whether a setting has this name, or a name below it.
  bool Has(std::string_view name) const;
};

// A position as origins of values name it: "train.toml:14".
std::string Origin(const Location& location);

// Whether a variable of a shell or of OmegaConf may have this character in its name, which are
// letters, digits and underscores.
inline bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

}  // namespace stepcast::foreign
