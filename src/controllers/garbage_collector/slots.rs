//! A table whose keys are small numbers. Pure.

/// Values under small numbers, which are reused.
#[derive(Debug)]
pub(super) struct Slots<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots {
            values: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(id) = self.free.pop()
            && let Some(slot) = self.values.get_mut(id as usize)
        {
            *slot = Some(value);
            return id;
        }
        self.values.push(Some(value));
        (self.values.len() - 1) as u32
    }

    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.values.get(id as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.values.get_mut(id as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        let removed = self.values.get_mut(id as usize)?.take()?;
        self.free.push(id);
        Some(removed)
    }

    pub(super) fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let values = self.values.iter().enumerate();
        values.filter_map(|(id, value)| Some((id as u32, value.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let values = self.values.iter_mut().enumerate();
        values.filter_map(|(id, value)| Some((id as u32, value.as_mut()?)))
    }
}
