#include "src/planner/evaluations.h"

#include <optional>
#include <string_view>

namespace stepcast::planner {
namespace {

// So that the ends of keys and lines are where they seem to be.
void AppendEscaped(std::string& text, std::string_view part, bool key) {
  for (const char c : part) {
    if (c == '\n') {
      text += "\\n";
    } else if (c == '\\') {
      text += "\\\\";
    } else if (c == '=' && key) {
      text += "\\e";
    } else {
      text += c;
    }
  }
}

}  // namespace

std::string ToText(const Settings& settings) {
  std::string text;
  for (const auto& [key, value] : settings) {
    AppendEscaped(text, key, true);
    text += '=';
    AppendEscaped(text, value, false);
    text += '\n';
  }
  return text;
}

Settings ToSettings(const std::string& text) {
  Settings settings;
  std::pair<std::string, std::string> setting;
  std::string* part = &setting.first;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      settings.push_back(std::exchange(setting, {}));
      part = &setting.first;
    } else if (c == '=' && part == &setting.first) {
      part = &setting.second;
    } else if (c == '\\' && i + 1 < text.size()) {
      const char escaped = text[++i];
      *part += escaped == 'n' ? '\n' : escaped == 'e' ? '=' : escaped;
    } else {
      *part += c;
    }
  }
  return settings;
}

tl::expected<void, std::string> Evaluate(const EvaluationList& list, Workforce& workforce,
                                         ResultStore* store) {
  const auto& key = list.key ? list.key : list.item;
  std::vector<std::int64_t> left;  // what the store does not know; unused without a store
  if (store != nullptr) {
    for (std::int64_t i = 0; i < list.count; ++i) {
      const std::optional<std::string> known = store->Find(key(i));
      if (!known) {
        left.push_back(i);
      } else if (!list.done(i, *known)) {
        return {};
      }
    }
  }
  const auto at = [&](std::int64_t index) {
    return store == nullptr ? index : left[static_cast<std::size_t>(index)];
  };
  const auto count = store == nullptr ? list.count : static_cast<std::int64_t>(left.size());
  if (list.begun) list.begun(list.count - count);
  if (count > 0) {
    const auto run =
        workforce.Run({.count = count,
                       .item = [&](std::int64_t index) { return list.item(at(index)); },
                       .done =
                           [&](std::int64_t index, std::string result) {
                             const bool more = list.done(at(index), result);
                             if (store == nullptr) return more;
                             store->Put(key(at(index)), std::move(result));
                             return more && store->good();
                           }});
    if (!run) return tl::unexpected(run.error().message);
  }
  if (store == nullptr) return {};
  return store->Finish();
}

}  // namespace stepcast::planner
