#pragma once

#include <optional>
#include <string>
#include <string_view>

// Finds input files. The data root is the folder with models/, topologies/, calibration/ and
// scenarios/. The data root is $STEPCAST_DATA if this variable is set. Otherwise, it is found
// relative to the binary: the binary's Bazel runfiles; the workspace that contains the binary;
// share/stepcast next to the binary's bin/; or, inside a Bazel test, the test's runfiles
// ($RUNFILES_DIR). The binary contains no absolute path.
namespace stepcast::scenario {

// Returns the data root. The path is empty if no data root is found, or if $STEPCAST_DATA is not a
// directory.
std::string DataRoot();

// Returns the file to which `path` in an input file of `folder` refers. A relative path is looked
// up first in `folder` ("" is the working directory) and then in the data root. Returns no value if
// the file does not exist.
std::optional<std::string> FindInput(std::string_view path, std::string_view folder);

// Returns the paths that FindInput tries for `path`, for the hint of a Diagnostic.
std::string PlacesTried(std::string_view path, std::string_view folder);

// Returns the folder of a file: "scenarios" for "scenarios/x.yaml", "" for "x.yaml".
std::string FolderOf(std::string_view file);

}  // namespace stepcast::scenario
