#include "src/cli/page_file.h"

#include <utility>

#include "src/cli/output_failure.h"

namespace stepcast::cli {

std::optional<Outcome> PageFile::Create(const std::string& path) {
  if (path.empty()) return std::nullopt;
  auto file = report::OutputFile::Create(path);
  if (!file) return CannotCreate(path, file.error());
  file_.emplace(std::move(*file));
  return std::nullopt;
}

std::optional<Outcome> PageFile::Write(const std::function<std::string()>& text) {
  if (!file_) return std::nullopt;
  auto written = file_->Write(text());
  if (written) written = file_->Commit();
  file_.reset();
  if (!written) return Failed(written.error());
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> AskedOf(const std::string& scenario,
                                                         const std::vector<std::string>& set) {
  std::vector<std::pair<std::string, std::string>> asked{{"scenario", scenario}};
  for (const std::string& text : set) asked.emplace_back("set", text);
  return asked;
}

}  // namespace stepcast::cli
