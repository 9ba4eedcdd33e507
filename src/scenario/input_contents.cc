#include "src/scenario/input_contents.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/diagnostic.h"
#include "src/scenario/data_root.h"
#include "src/scenario/document.h"
#include "src/scenario/family_file.h"
#include "src/scenario/source_names.h"

namespace stepcast::scenario {
InputCache::InputCache() : contents_(std::make_unique<Contents>()) {}
InputCache::~InputCache() = default;

namespace {

constexpr std::string_view kSuffix = ".yaml";

std::vector<std::string> NamesContaining(std::string_view word,
                                         const std::vector<std::string>& known) {
  std::string small(word);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::vector<std::string> names;
  std::copy_if(known.begin(), known.end(), std::back_inserter(names),
               [&](const std::string& name) { return name.find(small) != std::string::npos; });
  return names;
}

// The letters that a model's name begins with: "llama" for llama3.1-8b.
std::string_view FamilyOf(std::string_view name) {
  return name.substr(0, name.find_first_of("0123456789-_."));
}

// The first part between hyphens that is a number of parameters: "8b" in llama3.1-8b; empty: none.
std::string_view SizeOf(std::string_view name) {
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find_first_of("-_"));
    const std::size_t unit = part.find_first_not_of("0123456789.x");
    if (unit != std::string_view::npos && unit > 0 && unit + 1 == part.size() &&
        (part[unit] == 'b' || part[unit] == 'm' || part[unit] == 'B' || part[unit] == 'M')) {
      return part;
    }
    name.remove_prefix(std::min(part.size() + 1, name.size()));
  }
  return {};
}

// Whether two sizes match. "7b" also matches the size of 8x7b's experts.
bool IsSameSize(std::string_view a, std::string_view b) {
  for (std::string_view* size : {&a, &b}) {
    const std::size_t experts = size->find('x');
    if (experts != std::string_view::npos) size->remove_prefix(experts + 1);
  }
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// The known models of the word's family and size. A model of another family (mistral-7b for
// mixtral-7b) or another size (qwen3-8b for qwen3-32b) is not suggested, however similar its name.
// All models if the word's family is unknown.
std::vector<std::string> ModelsMeant(std::string_view word, const std::vector<std::string>& known) {
  const std::string_view family = FamilyOf(word), size = SizeOf(word);
  std::vector<std::string> of_family, names;
  for (const std::string& name : known) {
    if (FamilyOf(name) != family) continue;
    of_family.push_back(name);
    if (size.empty() || SizeOf(name).empty() || IsSameSize(size, SizeOf(name))) {
      names.push_back(name);
    }
  }
  return of_family.empty() ? known : names;
}

// At most one name.
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
  if (key == "model" && !UnmodelledFamily(word).empty()) return {};
  if (bare) folder = ShippedFolder(KindOfKey(key));
  if (word.ends_with(kSuffix)) word.resize(word.size() - kSuffix.size());
  const std::vector<std::string> known = NamesIn(folder);
  std::vector<std::string> meant;
  if (std::find(known.begin(), known.end(), word) != known.end()) {
    meant.push_back(word);
  } else if (bare) {
    meant = NamesContaining(word, known);
  }
  const std::vector<std::string> alike = key == "model" ? ModelsMeant(word, known) : known;
  if (meant.empty()) meant = NearestName(word, alike);
  // "gpt-3" means any model of the family.
  if (meant.empty() && alike.size() < known.size() && SizeOf(word).empty()) meant = alike;
  if (bare) return meant;
  for (std::string& name : meant) name = fmt::format("{}/{}{}", folder, name, kSuffix);
  return meant;
}

namespace {

bool IsFileName(std::string_view word) {
  return word.ends_with(kSuffix) || word.ends_with(".yml") || word.ends_with(".json");
}

// The path of the file with the most similar name in the folder of `path`. Empty if there is none.
std::string FileNear(std::string_view path) {
  const std::string folder = FolderOf(path);
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (IsFileName(name)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());  // the same on every machine
  const std::string_view near =
      NearestWord(path.substr(path.rfind('/') + 1), {names.begin(), names.end()});
  return near.empty() ? "" : (std::filesystem::path(folder) / near).string();
}

}  // namespace

std::string HintOfName(std::string_view word) {
  if (word.find('/') != std::string_view::npos || IsFileName(word)) {
    const std::string near = FileNear(word);
    return near.empty() ? "" : fmt::format("did you mean '{}'?", near);
  }
  if (std::string missing = MissingData(); !missing.empty()) return missing;
  constexpr std::size_t kMost = 4;
  std::vector<std::string> meant = FilesMeant(word, "model");
  std::erase(meant, word);  // a hint must not repeat the input
  meant.resize(std::min(meant.size(), kMost));
  return (meant.empty() ? std::string()
                        : fmt::format("did you mean '{}'? ", fmt::join(meant, "', or '"))) +
         "to see all named models, run stepcast list models";
}

}  // namespace stepcast::scenario
