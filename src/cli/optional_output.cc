#include "src/cli/optional_output.h"

#include <utility>

#include "src/cli/output_failure.h"
#include "src/study/output_paths.h"

namespace stepcast::cli {

std::optional<Outcome> OptionalOutput::Create(const std::string& path) {
  if (path.empty()) return std::nullopt;
  path_ = path;
  if (auto wrong = study::ReplacesInput(path_)) return WrongInput({*std::move(wrong)});
  auto file = report::OutputFile::Create(path);
  if (!file) return CannotCreate(path, file.error());
  file_.emplace(std::move(*file));
  return std::nullopt;
}

std::optional<Outcome> OptionalOutput::Write(const std::function<std::string()>& text) {
  return WriteBy([&](report::OutputFile& file) { return file.Write(text()); });
}

std::optional<Outcome> OptionalOutput::WriteBy(
    const std::function<tl::expected<void, std::string>(report::OutputFile&)>& put) {
  if (!file_) return std::nullopt;
  // Some files are read only during the work.
  if (auto wrong = study::ReplacesInput(path_)) return WrongInput({*std::move(wrong)});
  auto written = put(*file_);
  if (written) written = file_->Commit();
  file_.reset();
  if (!written) return Failed(written.error());
  return std::nullopt;
}

}  // namespace stepcast::cli
