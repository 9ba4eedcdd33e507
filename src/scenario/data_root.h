#pragma once

#include <optional>
#include <string>
#include <string_view>

// Finds input files. The data root is the folder with models/, topologies/, calibration/ and
// scenarios/: $STEPCAST_DATA if this variable is set. Otherwise, the folder is found relative to
// the binary: in the binary's Bazel runfiles, in the workspace that contains the binary, in
// share/stepcast next to the binary's bin/, or in a Bazel test's runfiles ($RUNFILES_DIR).
namespace stepcast::scenario {

// Returns the data root. Empty if no data root is found, or if $STEPCAST_DATA is not a directory.
std::string DataRoot();

// Returns the file to which `path` refers in an input file of `folder`. A relative path is searched
// in `folder` ("" is the working directory) and then in the data root. Returns no value if the file
// does not exist.
std::optional<std::string> FindInput(std::string_view path, std::string_view folder);

// Returns the hint of a Diagnostic: the folders in which FindInput looks for `path`.
std::string PlacesTried(std::string_view path, std::string_view folder);

// Returns a hint if the data root does not contain the shipped data. Otherwise empty.
std::string MissingData();

// Returns the folder of a file: "scenarios" for "scenarios/x.yaml", "" for "x.yaml".
std::string FolderOf(std::string_view file);

}  // namespace stepcast::scenario
