#include "src/planner/evaluations.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

namespace stepcast::planner {
namespace {

// So that the ends of keys and lines are where they seem to be.
void AppendEscaped(std::string& text, std::string_view part, bool key) {
  const std::string_view special = key ? "\n\\=" : "\n\\";
  for (;;) {
    const std::size_t end = std::min(part.find_first_of(special), part.size());
    text.append(part.substr(0, end));
    if (end == part.size()) return;
    text += '\\';
    text += part[end] == '\n' ? 'n' : part[end] == '=' ? 'e' : '\\';
    part.remove_prefix(end + 1);
  }
}

std::string Unescaped(std::string_view part) {
  std::string text;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '\\' && i + 1 < part.size()) {
      const char escaped = part[++i];
      text += escaped == 'n' ? '\n' : escaped == 'e' ? '=' : escaped;
    } else {
      text += part[i];
    }
  }
  return text;
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
  std::string_view left = text;
  for (std::size_t end = 0; (end = left.find('\n')) != std::string_view::npos;
       left.remove_prefix(end + 1)) {
    const std::string_view line = left.substr(0, end);
    const std::size_t equals = std::min(line.find('='), line.size());
    const std::string_view key = line.substr(0, equals);
    const std::string_view value = line.substr(std::min(equals + 1, line.size()));
    if (line.find('\\') == std::string_view::npos) {
      settings.emplace_back(key, value);
    } else {
      settings.emplace_back(Unescaped(key), Unescaped(value));
    }
  }
  return settings;
}

tl::expected<void, std::string> Evaluate(const EvaluationList& list, WorkerPool& pool,
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
    const auto run = pool.Run({.count = count,
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
