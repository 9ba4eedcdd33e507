#include "src/report/answer_line.h"

#include "fmt/format.h"
#include "src/report/json.h"
#include "src/report/json_values.h"

namespace stepcast::report {
namespace {

// Line breaks of a document, and the spaces that lay it out behind them, mean nothing: those of
// texts are escaped.
std::string OnOneLine(std::string_view document) {
  std::string line;
  line.reserve(document.size());
  bool indentation = false;
  for (const char c : document) {
    if (c == '\n') {
      indentation = true;
    } else if (!indentation || c != ' ') {
      indentation = false;
      line += c;
    }
  }
  return line;
}

std::string WithId(std::string_view id, std::string_view key, std::string_view value) {
  return fmt::format("{{\"id\": {}, \"{}\": {}}}\n", id, key, value);
}

}  // namespace

std::string AnswerLine(std::string_view id, std::string_view document) {
  return WithId(id, "answer", OnOneLine(document));
}

std::string MistakesLine(std::string_view id, const Diagnostics& mistakes) {
  Json list = Json::array();
  for (const Diagnostic& mistake : mistakes) {
    list.push_back({{"code", mistake.code},
                    {"file", mistake.location.file},
                    {"line", mistake.location.line},
                    {"column", mistake.location.column},
                    {"message", mistake.message},
                    {"hint", mistake.hint}});
  }
  return WithId(id, "mistakes", OnOneLine(Text(list)));
}

std::string FailureLine(std::string_view id, const std::string& reason) {
  return WithId(id, "failure", OnOneLine(Text(Json(reason))));
}

}  // namespace stepcast::report
