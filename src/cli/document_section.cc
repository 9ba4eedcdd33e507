#include "src/cli/document_section.h"

#include <fstream>
#include <sstream>

#include "fmt/format.h"

namespace stepcast::cli {

std::optional<Outcome> DocumentSection::Open(const std::string& path, const std::string& name) {
  if (path.empty()) return std::nullopt;
  const std::string begin_line = fmt::format("<!-- {}: begin -->\n", name);
  const std::string end_line = fmt::format("<!-- {}: end -->\n", name);
  std::ifstream file(path, std::ios::binary);
  std::stringstream read;
  read << file.rdbuf();
  const std::string text = read.str();
  const std::size_t begin = text.find(begin_line);
  const std::size_t end = begin == std::string::npos ? begin : text.find(end_line, begin);
  if (!file || end == std::string::npos) {
    return WrongInput(
        {{file ? "command.no-section" : "file.not-found",
          {path, 0, 0},
          file ? fmt::format("the document has no section for {}", name) : "there is no such file",
          fmt::format("write the lines '<!-- {0}: begin -->' and '<!-- {0}: end "
                      "-->' where it is to stand",
                      name)}});
  }
  before_ = text.substr(0, begin + begin_line.size());
  after_ = text.substr(end);
  return file_.Create(path);
}

std::optional<Outcome> DocumentSection::Write(const std::function<std::string()>& content) {
  return file_.Write([&] { return before_ + content() + after_; });
}

}  // namespace stepcast::cli
