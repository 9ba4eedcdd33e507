#include "src/scenario/variants.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/scenario/load.h"
#include "src/scenario/scenario_file.h"

namespace stepcast::scenario {
namespace {

// The largest numbers of entries. If one of them is exceeded, all entries are dropped.
constexpr std::size_t kMostOptions = 16'384;
constexpr std::size_t kMostVarieties = 512;

constexpr std::string_view kNodes = "cluster.nodes";
// It determines the defaults of a profile's missing sections.
constexpr std::string_view kPrecision = "training.precision";

// Whether setting one of the keys can undo a value set by the other.
bool Touch(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return b.starts_with(a) && (a.size() == b.size() || b[a.size()] == '.');
}

}  // namespace

Variants::Variants(std::string path, std::vector<std::string> fixed, InputCache& cache)
    : path_(std::move(path)), fixed_(std::move(fixed)), cache_(cache) {}

Result<const Scenario*> Variants::Load(const std::vector<std::string>& overrides) {
  Diagnostics mistakes;
  const Values before = std::exchange(last_values_, {});
  same_as_before_ = false;
  if (const Scenario* variant = LoadVariant(overrides, mistakes)) {
    last_values_ = {.variety = last_,
                    .plan = variant->plan,
                    .nodes = last_->loader->nodes(),
                    .optimizer_states_assumed = variant->optimizer_states_assumed,
                    .attention_assumed = variant->attention_assumed};
    same_as_before_ = last_values_ == before;
    return variant;
  }
  if (!mistakes.empty()) return tl::make_unexpected(std::move(mistakes));
  return LoadWhole(overrides);
}

Variants::Tried Variants::Try(const std::vector<std::string>& overrides) {
  Tried tried;
  tried.scenario = LoadVariant(overrides, tried.mistakes);
  if (tried.scenario != nullptr || !tried.mistakes.empty()) return tried;
  if (last_ != nullptr && last_->loader && mistakes_.empty() && !last_->loader->broken().empty()) {
    tried.broken = &last_->loader->broken();
    return tried;
  }
  auto whole = LoadWhole(overrides);
  if (whole) {
    tried.scenario = *whole;
  } else {
    tried.mistakes = std::move(whole.error());
  }
  return tried;
}

const Scenario* Variants::LoadVariant(const std::vector<std::string>& overrides,
                                      Diagnostics& mistakes) {
  if (options_.size() > kMostOptions || varieties_.size() > kMostVarieties) {
    options_.clear();
    keys_.clear();
    varieties_.clear();
    last_ = nullptr;
    last_values_ = {};
  }
  present_.clear();
  signature_.clear();
  for (const std::string& text : overrides) {
    const Option& option = OptionOf(text);
    present_.push_back(&option);
    const std::uint32_t word = option.number << 1 | static_cast<std::uint32_t>(option.is_value);
    signature_.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  if (last_ == nullptr || signature_ != last_signature_) {
    const auto known = varieties_.find(signature_);
    last_ = known == varieties_.end() ? nullptr : known->second.get();
    last_signature_ = signature_;
  }
  if (last_ != nullptr) {
    if (!last_->loader || !Reread(*last_)) return nullptr;
    return &last_->loader->scenario();
  }

  // A value that a later entry removes or replaces does not belong to the scenario.
  const bool ordered = [&] {
    for (std::size_t i = 0; i < present_.size(); ++i) {
      if (present_[i]->is_value) continue;
      for (std::size_t j = 0; j < i; ++j) {
        if (present_[j]->is_value && Touch(present_[i]->key, present_[j]->key)) return true;
      }
    }
    return false;
  }();
  if (ordered) {
    last_ = varieties_.emplace(signature_, std::make_unique<Variety>()).first->second.get();
    return nullptr;
  }
  auto opened = OpenScenario(path_, cache_);
  if (!opened) {
    mistakes = std::move(opened.error());
    return nullptr;
  }
  Override(fixed_, *opened, cache_);
  Override(overrides, *opened, cache_);
  Loader loader(*std::move(opened), cache_);
  auto read = loader.Read();
  if (!read && !loader.can_reread()) {
    mistakes = std::move(read.error());
    return nullptr;
  }
  auto variety = std::make_unique<Variety>();
  variety->request = loader.request();
  variety->read = present_;
  variety->loader.emplace(std::move(loader));
  last_ = varieties_.emplace(signature_, std::move(variety)).first->second.get();
  mistakes_.clear();
  return read ? &last_->loader->scenario() : nullptr;
}

// The keys are the same in the same order, so values before the first difference are already in the
// request.
bool Variants::Reread(Variety& variety) {
  std::optional<std::int64_t> nodes = variety.loader->nodes();
  mistakes_.clear();
  variety.read.resize(present_.size());
  bool same = true;
  for (std::size_t i = 0; i < present_.size(); ++i) {
    const Option* const option = present_[i];
    same = same && variety.read[i] == option;
    variety.read[i] = option;
    if (!option->is_value) continue;
    if (!option->read) {
      nodes = option->nodes;
      continue;
    }
    if (same) continue;
    MappingReader reader(*option->section, mistakes_);
    option->read(reader, variety.request);
  }
  if (!mistakes_.empty()) variety.read.clear();
  return mistakes_.empty() && variety.loader->Reread(variety.request, nodes);
}

Result<const Scenario*> Variants::LoadWhole(const std::vector<std::string>& overrides) {
  std::vector<std::string> all = fixed_;
  all.insert(all.end(), overrides.begin(), overrides.end());
  auto scenario = scenario::Load(path_, all, cache_);
  if (!scenario) return tl::make_unexpected(std::move(scenario.error()));
  whole_ = *std::move(scenario);
  return &*whole_;
}

const Variants::Option& Variants::OptionOf(const std::string& text) {
  const auto known = options_.find(text);
  if (known != options_.end()) return known->second;
  Option option = MakeOption(text);
  option.number =
      option.is_value
          ? keys_.emplace(option.key, static_cast<std::uint32_t>(keys_.size())).first->second
          : static_cast<std::uint32_t>(options_.size());
  return options_.emplace(text, std::move(option)).first->second;
}

// An option that cannot be parsed, or whose value is invalid, is not a value; reading the whole
// scenario reports it.
Variants::Option Variants::MakeOption(const std::string& text) {
  Option option;
  const std::size_t equals = std::min(text.find('='), text.size());
  option.key = text.substr(0, equals);
  const std::size_t dot = option.key.rfind('.');
  if (equals == text.size() || dot == std::string::npos || option.key == kPrecision) return option;
  const std::string section = option.key.substr(0, dot);
  const std::string word = option.key.substr(dot + 1);
  const bool nodes = option.key == kNodes;
  ReadKey read = nodes ? ReadKey() : ReaderOf(section, word);
  if (!nodes && !read) return option;
  Diagnostics mistakes;
  const auto value =
      ParseYaml(std::string_view(text).substr(equals + 1), "", mistakes, /*with_positions=*/false);
  if (!value || (*value)->kind != NodeKind::kScalar) return option;
  option.section.emplace(UnderKey(word, *value), section);
  MappingReader reader(*option.section, mistakes);
  if (nodes) {
    option.nodes = reader.ReadInteger(word, Need::kOptional, kNodeRange);
  } else {
    plan::Request request;
    read(reader, request);
  }
  option.is_value = mistakes.empty();
  option.read = std::move(read);
  return option;
}

}  // namespace stepcast::scenario
