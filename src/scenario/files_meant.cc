#include "src/scenario/files_meant.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/model/other_families.h"
#include "src/scenario/data_root.h"
#include "src/scenario/document.h"
#include "src/scenario/source_names.h"

namespace stepcast::scenario {
namespace {

constexpr std::string_view kSuffix = ".yaml";

std::vector<std::string> NamesContaining(std::string_view word,
                                         const std::vector<std::string>& known) {
  std::vector<std::string> names;
  std::copy_if(known.begin(), known.end(), std::back_inserter(names),
               [&](const std::string& name) { return name.find(word) != std::string::npos; });
  return names;
}

// Those whose first part, up to a hyphen, is the word's: a model of another family is not meant,
// however little differs (mistral-7b for mixtral-7b). All, where there is none.
std::vector<std::string> NamesOfFamily(std::string_view word,
                                       const std::vector<std::string>& known) {
  const std::size_t hyphen = word.find('-');
  if (hyphen == std::string_view::npos) return known;
  std::vector<std::string> names;
  std::copy_if(known.begin(), known.end(), std::back_inserter(names), [&](const std::string& name) {
    return name.starts_with(word.substr(0, hyphen + 1));
  });
  return names.empty() ? known : names;
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
  if (path.starts_with('/')) return {};
  std::string folder = FolderOf(path);
  const bool bare = folder.empty();
  std::string word(bare ? path : path.substr(folder.size() + 1));
  if (key == "model" && model::OtherFamilyOf(word) != nullptr) return {};
  if (bare) folder = ShippedFolder(KindOfKey(key));
  if (word.ends_with(kSuffix)) word.resize(word.size() - kSuffix.size());
  const std::vector<std::string> known = NamesIn(folder);
  std::vector<std::string> meant;
  if (std::find(known.begin(), known.end(), word) != known.end()) {
    meant.push_back(word);
  } else if (bare) {
    meant = NamesContaining(word, known);
  }
  if (meant.empty()) meant = NearestName(word, key == "model" ? NamesOfFamily(word, known) : known);
  if (bare) return meant;
  for (std::string& name : meant) name = fmt::format("{}/{}{}", folder, name, kSuffix);
  return meant;
}

}  // namespace stepcast::scenario
