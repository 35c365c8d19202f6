"""Files and blocks of files that are generated from declarations in the package: `make generate`."""
