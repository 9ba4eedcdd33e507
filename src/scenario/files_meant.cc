#include "src/scenario/files_meant.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/model/other_families.h"
#include "src/scenario/data_root.h"
#include "src/scenario/document.h"

namespace stepcast::scenario {
namespace {

// The folder of the data root that holds what a key names.
std::string_view ShippedFolder(std::string_view key) {
  return key == "model" ? "models" : key.ends_with("calibration") ? "calibration" : "topologies";
}

std::vector<std::string> NamesContaining(std::string_view word,
                                         const std::vector<std::string>& known) {
  std::vector<std::string> names;
  std::copy_if(known.begin(), known.end(), std::back_inserter(names),
               [&](const std::string& name) { return name.find(word) != std::string::npos; });
  return names;
}

// One or none.
std::vector<std::string> NearestName(std::string_view word, const std::vector<std::string>& known) {
  const std::string_view nearest = NearestWord(word, {known.begin(), known.end()});
  if (nearest.empty()) return {};
  return {std::string(nearest)};
}

}  // namespace

std::vector<std::string> NamesMeant(std::string_view word, const std::vector<std::string>& known) {
  std::vector<std::string> names = NamesContaining(word, known);
  return names.empty() ? NearestName(word, known) : names;
}

std::vector<std::string> FilesMeant(std::string_view path, std::string_view key) {
  const std::string root = DataRoot();
  std::string folder = FolderOf(path);
  const bool bare = folder.empty();
  if (root.empty() || path.starts_with('/')) return {};
  const std::string word(bare ? path : path.substr(folder.size() + 1));
  if (key == "model" && model::OtherFamilyOf(word) != nullptr) return {};
  if (bare) folder = ShippedFolder(key);
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root + "/" + folder, error), end;
       !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".yaml") names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());  // the same hint on every machine
  const std::string with_ending = bare && !word.ends_with(".yaml") ? word + ".yaml" : word;
  std::vector<std::string> meant;
  if (std::find(names.begin(), names.end(), with_ending) != names.end()) {
    meant.push_back(with_ending);
  } else if (bare) {
    meant = NamesContaining(word, names);
  }
  if (meant.empty()) meant = NearestName(with_ending, names);
  for (std::string& name : meant) name = fmt::format("{}/{}", folder, name);
  return meant;
}

}  // namespace stepcast::scenario
