//! Paths of values with the keys of maps in brackets, as kube-apiserver reports lists and embedded
//! resources: `spec.map[a]`, where validation by the schema reports `spec.map.a`.

/// The path of a value, with keys of maps in brackets.
pub(crate) enum KeyedPath<'p> {
    Top,
    Member(&'p KeyedPath<'p>, &'p str),
    Key(&'p KeyedPath<'p>, &'p str),
    Item(&'p KeyedPath<'p>, usize),
}

impl std::fmt::Display for KeyedPath<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let steps = std::iter::successors(Some(self), |step| match step {
            KeyedPath::Top => None,
            KeyedPath::Member(above, _) | KeyedPath::Key(above, _) | KeyedPath::Item(above, _) => {
                Some(above)
            }
        });
        let steps: Vec<&KeyedPath<'_>> = steps.collect();
        for step in steps.into_iter().rev() {
            match step {
                KeyedPath::Top => {}
                KeyedPath::Member(KeyedPath::Top, name) => f.write_str(name)?,
                KeyedPath::Member(_, name) => write!(f, ".{name}")?,
                KeyedPath::Key(_, name) => write!(f, "[{name}]")?,
                KeyedPath::Item(_, index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
