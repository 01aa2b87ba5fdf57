//! One Dispatcher per HTTP thread: its watchers, their topics and groups.

/// The Dispatcher of the calling thread.
#[derive(Clone)]
pub struct LocalDispatcher {
    _not_send: std::marker::PhantomData<std::rc::Rc<()>>,
}
