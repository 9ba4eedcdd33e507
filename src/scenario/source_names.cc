#include "src/scenario/source_names.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/scenario/data_root.h"

namespace stepcast::scenario {
Followed Follow(Node node, std::string_view path) {
  while (!path.empty()) {
    std::optional<Node> below;
    if (path.front() == '[') {
      const std::size_t close = path.find(']');
      std::size_t index = 0;
      std::from_chars(path.data() + 1, path.data() + close, index);
      const std::vector<Node> items = node.items();
      if (index < items.size()) below = items[index];
      path.remove_prefix(close + 1);
    } else {
      if (path.front() == '.') path.remove_prefix(1);
      const std::string_view key = path.substr(0, path.find_first_of(".["));
      for (const auto& [name, value] : node.entries()) {
        if (name == key) below = value;
      }
      path.remove_prefix(key.size());
    }
    if (!below) return {node, false};
    node = *std::move(below);
  }
  return {node, true};
}

namespace {

constexpr std::string_view kEnding = ".yaml";

bool IsName(std::string_view text) {
  return !text.empty() && text.front() != '.' && text.find('/') == std::string_view::npos &&
         !text.ends_with(kEnding) && !text.ends_with(".json");
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

}  // namespace

std::string_view ShippedFolder(SourceKind kind) {
  switch (kind) {
    case SourceKind::kModel:
      return "models";
    case SourceKind::kTopology:
      return "topologies";
    case SourceKind::kCalibration:
      return "calibration";
  }
  return "";
}

SourceKind KindOfKey(std::string_view key) {
  return key == "model"                 ? SourceKind::kModel
         : key.ends_with("calibration") ? SourceKind::kCalibration
                                        : SourceKind::kTopology;
}

std::optional<std::string> FindSource(std::string_view text, std::string_view folder,
                                      SourceKind kind) {
  std::optional<std::string> found = FindInput(text, folder);
  if (found && !IsFolder(*found)) return found;
  if (found && kind == SourceKind::kModel) {
    if (auto config = FindInput(fmt::format("{}/config.json", *found), "")) return config;
  }
  if (IsName(text)) {
    const std::string root = DataRoot();
    if (!root.empty()) {
      auto shipped =
          FindInput(fmt::format("{}/{}/{}{}", root, ShippedFolder(kind), text, kEnding), "");
      if (shipped) return shipped;
      // foreign/recipes.h knows other names of models.
      const std::string same = kind == SourceKind::kModel ? "" : SameName(text, ShippedNames(kind));
      if (!same.empty()) {
        return FindInput(fmt::format("{}/{}/{}{}", root, ShippedFolder(kind), same, kEnding), "");
      }
    }
  }
  return found;
}

std::vector<std::string> NamesIn(std::string_view folder) {
  std::vector<std::string> names;
  const std::string root = DataRoot();
  if (root.empty()) return names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(fmt::format("{}/{}", root, folder), error), end;
       !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == kEnding) names.push_back(entry->path().stem().string());
  }
  std::sort(names.begin(), names.end());  // the same on every machine
  return names;
}

std::vector<std::string> ShippedNames(SourceKind kind) { return NamesIn(ShippedFolder(kind)); }

std::string SameName(std::string_view word, const std::vector<std::string>& known) {
  const auto plain = [](std::string_view text) {
    std::string name;
    for (const char c : text) {
      name += c == ' ' || c == '_' ? '-'
                                   : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return name;
  };
  const std::string meant = plain(word);
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const std::string& name) { return plain(name) == meant; });
  return found == known.end() ? "" : *found;
}

bool HasWord(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::string_view next = list.substr(0, list.find(' '));
    if (next == word) return true;
    list.remove_prefix(std::min(next.size() + 1, list.size()));
  }
  return false;
}

}  // namespace stepcast::scenario
