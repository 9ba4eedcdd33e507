#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/formats/json_object.h"

namespace stepcast::formats {

// The hint for layers that a model file cannot describe either.
inline constexpr const char* kTakeTheKeyOut =
    "take the key out if the model has nothing of the kind; no model file can describe it either";

// Reads the values of a config.json by path and remembers which were asked for, so that what nobody
// asked for can be judged (huggingface_keys.h). A key that is null counts as absent, as it does in
// transformers. Paths are those inside `section`: "rope_scaling.factor".
class HuggingFaceReader {
 public:
  static constexpr std::int64_t kMostDimension = 1'000'000'000'000;

  // `section`: the object to read, "text_config"; empty: the whole document. `config`, `mistakes`
  // and `warnings` must outlive the reader.
  HuggingFaceReader(const JsonObject& config, std::string_view section, Diagnostics& mistakes,
                    std::vector<std::string>& warnings);

  const JsonValue* Find(const std::string& path);
  // The key stands in the file, if only as null.
  bool Has(const std::string& path) const;
  // Not 1 and up: reported, and nothing.
  std::optional<std::int64_t> OptionalDimension(const std::string& path);
  // Where 0 says that there is none, as leaving the key out does.
  std::int64_t OptionalDimensionOrZero(const std::string& path);
  // 1 after reporting that it is missing or wrong.
  std::int64_t Dimension(const std::string& path);
  bool Boolean(const std::string& path, bool absent);
  double Number(const std::string& path, double absent);  // not below zero
  std::string Text(const std::string& path, std::string absent);
  // The texts of an array; what else it holds is reported. Nothing: there is no such array.
  std::optional<std::vector<std::string>> Texts(const std::string& path);
  // What stands there makes no difference: it counts as asked for.
  void Accept(const std::string& path) { Find(path); }

  // Reports a variant that is not modelled.
  void Refuse(const std::string& path, std::string_view why,
              std::string hint = "describe the model in a model file; see docs/formats.md");
  // Says what the forecast makes of a value that it does not follow.
  void Warn(const std::string& path, std::string_view what);

  // The values that were not asked for, by path: those of the section, and of the objects in it of
  // which some value was.
  std::vector<std::pair<std::string, const JsonValue*>> Others() const;
  // Of the section itself, the keys that were asked for.
  std::vector<std::string_view> KeysAskedFor() const;
  // Something was reported since this reader was made: dimensions may stand in for others.
  bool failed() const { return mistakes_.size() > mistakes_before_; }
  // Where the section stands.
  Location location() const;

 private:
  void Report(const std::string& path, std::string code, std::string_view need,
              const JsonValue& value);
  std::string PathOf(const std::string& path) const { return prefix_ + path; }

  const JsonObject& config_;
  const std::string section_;
  const std::string prefix_;  // of paths in it: "text_config.", or nothing
  Diagnostics& mistakes_;
  const std::size_t mistakes_before_;
  std::vector<std::string>& warnings_;
  std::set<std::string> asked_for_;  // paths in the section
};

}  // namespace stepcast::formats
