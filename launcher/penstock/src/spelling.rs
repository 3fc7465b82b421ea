//! Flags as people spell them.
//!
//! In: the command line. Out: the same with `--num_workers` and `--numWorkers` as `--num-workers`, and Horovod's `-np`.
//! The promise: what stands behind the script is the script's, whatever it is called, and stays as it is.

use std::ffi::OsString;

use clap::{Arg, Command};

/// The words of a command line, our own flags among them in our own spelling.
pub(crate) fn ours(program: &Command, words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut rest = words.into_iter();
    let mut words: Vec<OsString> = rest.by_ref().take(2).collect();
    let named = words.get(1).and_then(|name| name.to_str());
    let Some(command) = named.and_then(|name| program.find_subcommand(name)) else {
        words.extend(rest);
        return words;
    };
    // What follows its first positional argument belongs to that.
    let trails = command.get_positionals().any(Arg::is_trailing_var_arg_set);
    while let Some(word) = rest.next() {
        let Some(text) = word.to_str().filter(|text| text.len() > 1 && text.starts_with('-')) else {
            if trails {
                // Or a flag behind it that is spelt like ours would be taken for ours.
                words.extend([OsString::from("--"), word]);
                break;
            }
            words.push(word);
            continue;
        };
        if text == "--" {
            words.push(word);
            break;
        }
        let (flag, value) = match text.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (text, None),
        };
        let flag = kebab(if flag == "-np" { "--num-workers" } else { flag });
        let takes_next = value.is_none() && find(command, &flag).is_some_and(takes_next);
        words.push(value.map_or_else(|| flag.clone(), |value| format!("{flag}={value}")).into());
        if takes_next {
            words.extend(rest.next());
        }
    }
    words.extend(rest);
    words
}

fn find<'a>(command: &'a Command, flag: &str) -> Option<&'a Arg> {
    if let Some(long) = flag.strip_prefix("--") {
        let is_it = |arg: &&Arg| {
            arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
        };
        return command.get_arguments().find(is_it);
    }
    // `-n4` holds its value.
    let mut letters = flag.chars().skip(1);
    let letter = letters.next().filter(|_| letters.next().is_none());
    command.get_arguments().find(|arg| letter.is_some() && arg.get_short() == letter)
}

fn takes_next(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

/// `--num_workers` and `--numWorkers` → `--num-workers`; a short flag stays.
fn kebab(flag: &str) -> String {
    if !flag.starts_with("--") {
        return flag.to_owned();
    }
    let mut spelt = String::new();
    for c in flag.chars() {
        if c.is_ascii_uppercase() {
            spelt.push('-');
        }
        spelt.push(if c == '_' { '-' } else { c.to_ascii_lowercase() });
    }
    spelt
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn check(line: &str, expected: &str) {
        let words = ours(&crate::Cli::command(), line.split(' ').map(OsString::from));
        let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn our_flags_are_spelt_our_way_up_to_the_script() {
        check(
            "penstock run --num_workers 2 a.py --batch_size 3",
            "penstock run --num-workers 2 -- a.py --batch_size 3",
        );
        check("penstock run --numPs=1 --chief a.py --a_b", "penstock run --num-ps=1 --chief -- a.py --a_b");
        check(
            "penstock run -np 2 -n 3 -n4 a.py -np 5",
            "penstock run --num-workers 2 -n 3 -n4 -- a.py -np 5",
        );
        check(
            "penstock run --worker_num 2 --env A_B=c_d a",
            "penstock run --worker-num 2 --env A_B=c_d -- a",
        );
        check(
            "penstock run --run_dir --a_b --file x_y -- --c_d",
            "penstock run --run-dir --a_b --file x_y -- --c_d",
        );
        check("penstock gateway --ticket_key_file x_y", "penstock gateway --ticket-key-file x_y");
        check("penstock", "penstock");
        check("penstock no_such --a_b", "penstock no_such --a_b");
    }
}
