//! As much of protoc's command line as prost-build uses: compiles `.proto` files to a set of
//! descriptors. `protoc.sh` beside it says when it is taken.
//!
//! ```text
//! protoc [--include_imports] [--include_source_info] -o OUTPUT -I FOLDER... FILE...
//! protoc --version
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use protox::Compiler;

/// What the command line asks for.
#[derive(Default)]
struct Wish {
    output: PathBuf,
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
    includes_imports: bool,
    includes_source_info: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--version"] {
        println!("libprotoc 3.21.12 (protox)");
        return ExitCode::SUCCESS;
    }
    match read(arguments).and_then(|wish| compile(&wish)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("protoc: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn read(arguments: Vec<String>) -> Result<Wish, String> {
    let mut wish = Wish::default();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut value = || {
            let missing = || format!("{argument} needs a value");
            arguments.next().map(PathBuf::from).ok_or_else(missing)
        };
        match argument.as_str() {
            "-o" => wish.output = value()?,
            "-I" => wish.folders.push(value()?),
            "--include_imports" => wish.includes_imports = true,
            "--include_source_info" => wish.includes_source_info = true,
            option if option.starts_with('-') => {
                return Err(format!("{option} is not built; install protoc for it"));
            }
            file => wish.files.push(PathBuf::from(file)),
        }
    }
    if wish.output.as_os_str().is_empty() || wish.files.is_empty() {
        return Err("an output (-o) and files are needed".to_owned());
    }
    Ok(wish)
}

fn compile(wish: &Wish) -> Result<(), String> {
    let describe = |error: protox::Error| error.to_string();
    let mut compiler = Compiler::new(&wish.folders).map_err(describe)?;
    compiler
        .include_imports(wish.includes_imports)
        .include_source_info(wish.includes_source_info)
        .open_files(&wish.files)
        .map_err(describe)?;
    let descriptors = compiler.encode_file_descriptor_set();
    std::fs::write(&wish.output, descriptors)
        .map_err(|error| format!("{}: {error}", wish.output.display()))
}
