//! Things under small numbers that are used again. Pure.

/// A number together with which use of it is meant: a note about something that is gone must
/// not be taken for one about what came after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) number: u32,
    use_of_it: u32,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    uses: u32,
    thing: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// The number that the next thing gets.
    pub(super) fn next_number(&self) -> u32 {
        let last = self.free.last().copied();
        last.unwrap_or(self.places.len() as u32)
    }

    pub(super) fn insert(&mut self, thing: T) -> Ticket {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                uses: 0,
                thing: None,
            });
            (self.places.len() - 1) as u32
        });
        let mut use_of_it = 0;
        if let Some(place) = self.places.get_mut(number as usize) {
            place.uses = place.uses.wrapping_add(1);
            place.thing = Some(thing);
            use_of_it = place.uses;
        }
        Ticket { number, use_of_it }
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let thing = self.places.get_mut(number as usize)?.thing.take()?;
        self.free.push(number);
        Some(thing)
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.places.get(number as usize)?.thing.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.places.get_mut(number as usize)?.thing.as_mut()
    }

    /// What the ticket was given for, unless that is gone.
    pub(super) fn find_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        let place = self.places.get_mut(ticket.number as usize)?;
        if place.uses == ticket.use_of_it {
            place.thing.as_mut()
        } else {
            None
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.thing.as_ref())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places
            .iter_mut()
            .filter_map(|place| place.thing.as_mut())
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_but_old_tickets_find_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert("a");
        let second = slab.insert("b");
        assert_eq!(slab.remove(first.number), Some("a"));
        assert_eq!(slab.next_number(), first.number);
        let third = slab.insert("c");
        assert_eq!(slab.next_number(), second.number + 1);
        assert_eq!(third.number, first.number);
        assert_eq!(slab.find_mut(first), None);
        assert_eq!(slab.find_mut(third), Some(&mut "c"));
        assert_eq!(slab.get(second.number), Some(&"b"));
        assert_eq!(slab.iter().collect::<Vec<_>>(), [&"c", &"b"]);
        assert_eq!(slab.len(), 2);
        assert_eq!(slab.remove(9), None);
    }
}
