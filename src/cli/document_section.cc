#include "src/cli/document_section.h"

#include <fstream>
#include <sstream>

#include "fmt/format.h"
#include "src/report/output_file.h"

namespace stepcast::cli {

std::optional<Outcome> UpdateSection(const std::string& path, const std::string& name,
                                     const std::string& content) {
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
  auto output = report::OutputFile::Create(path);
  if (!output) return Failed(output.error());
  const std::string whole = text.substr(0, begin + begin_line.size()) + content + text.substr(end);
  if (auto written = output->Write(whole); !written) return Failed(written.error());
  if (auto done = output->Commit(); !done) return Failed(done.error());
  return std::nullopt;
}

}  // namespace stepcast::cli
