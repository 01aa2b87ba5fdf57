//! The patterns that values of one object are matched with. Each is compiled when the first text
//! comes, and only the last few are kept.

use regex::Regex;

use super::Budget;
use super::pattern::Pattern;

/// How many compiled patterns are kept.
const MAX_KEPT: usize = 4;

/// The bytes of a pattern that is compared with another one in a step.
const BYTES_IN_STEP: usize = 64;

/// The comparisons of parts of a pattern with bytes of a text that are one step.
const COMPARISONS_IN_STEP: usize = 64;

/// The compiled patterns of one object, the one that was asked for last in front.
#[derive(Debug, Default)]
pub struct Patterns<'s> {
    kept: Vec<(&'s str, Kept)>,
}

#[derive(Debug)]
enum Kept {
    /// It is no pattern: nothing is asked of texts.
    Invalid,
    /// It is too large to compile: no text matches it.
    TooLarge,
    /// It is compiled. A byte of a text costs so many comparisons at most.
    Compiled(Box<Regex>, usize),
}

impl<'s> Patterns<'s> {
    /// Whether a part of a text matches a pattern. There is no answer if the budget is spent.
    pub fn matches(&mut self, pattern: &'s str, text: &str, budget: &Budget) -> Option<bool> {
        self.ask_for(pattern, budget)?;
        let (_, kept) = self.kept.first()?;
        match kept {
            Kept::Invalid => Some(true),
            Kept::TooLarge => Some(false),
            Kept::Compiled(regex, cost) => {
                let comparisons = text.len().saturating_mul(*cost);
                let steps = 1 + comparisons / COMPARISONS_IN_STEP;
                budget.take(steps).then(|| regex.is_match(text))
            }
        }
    }

    /// Moves a pattern to the front.
    fn ask_for(&mut self, pattern: &'s str, budget: &Budget) -> Option<()> {
        let mut known = self.kept.iter().map(|(known, _)| *known);
        let mut found = known.position(|known| std::ptr::eq(known, pattern));
        if found.is_none() {
            let steps = 1 + MAX_KEPT * pattern.len() / BYTES_IN_STEP;
            budget.take(steps).then_some(())?;
            found = self.kept.iter().position(|(known, _)| *known == pattern);
        }
        let kept = match found {
            Some(0) => return Some(()),
            Some(at) => self.kept.remove(at),
            None => (pattern, compiled(pattern, budget)?),
        };
        self.kept.truncate(MAX_KEPT - 1);
        self.kept.insert(0, kept);
        Some(())
    }
}

fn compiled(pattern: &str, budget: &Budget) -> Option<Kept> {
    budget.take(Pattern::read_steps(pattern)).then_some(())?;
    let Ok(pattern) = Pattern::new(pattern) else {
        return Some(Kept::Invalid);
    };
    budget.take(pattern.compile_steps()).then_some(())?;
    Some(match pattern.compiled() {
        Some(regex) => Kept::Compiled(Box::new(regex), pattern.cost()),
        None => Kept::TooLarge,
    })
}
