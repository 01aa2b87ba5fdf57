//! Adding and removing resources of a server inside a program.

use super::thread::{ServerThread, WorkSender};
use crate::api::resource::ResourceDefinition;
use crate::daemon::resources::{ResourceError, Resources};

/// Adds and removes resources while a server runs. The work is done on the threads of the server.
/// The futures may be polled by any executor; dropping one does not undo what it has begun. Clones
/// share the same server.
#[derive(Clone)]
pub struct ServerResources {
    work: WorkSender,
}

impl ServerResources {
    pub(super) fn of(thread: &ServerThread) -> ServerResources {
        ServerResources {
            work: thread.work(),
        }
    }

    /// Adds a resource. Returns when it is served and its cache is filled.
    ///
    /// # Errors
    /// [`ResourceError`]. Nothing has changed.
    pub async fn add(&self, definition: ResourceDefinition) -> Result<(), ResourceError> {
        self.add_all([definition]).await
    }

    /// Adds resources in one generation: all or none.
    ///
    /// # Errors
    /// The first [`ResourceError`]. Nothing has changed.
    pub async fn add_all(
        &self,
        definitions: impl IntoIterator<Item = ResourceDefinition>,
    ) -> Result<(), ResourceError> {
        let definitions: Vec<ResourceDefinition> = definitions.into_iter().collect();
        self.run(|resources| async move { resources.add_all(definitions).await })
            .await
            .unwrap_or(Err(ResourceError::Stopped))
    }

    /// Removes a resource. Its watches end, and its objects stay in the store.
    ///
    /// # Errors
    /// [`ResourceError`]. Nothing has changed.
    pub async fn remove(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Result<(), ResourceError> {
        let [group, version, plural] = [group, version, plural].map(str::to_owned);
        self.run(|resources| async move { resources.remove(&group, &version, &plural).await })
            .await
            .unwrap_or(Err(ResourceError::Stopped))
    }

    /// The number of changes of the served resources so far, or `None` if the server has ended.
    pub async fn generation(&self) -> Option<u64> {
        self.run(|resources| async move { resources.generation() })
            .await
    }

    /// Runs work on the thread of the server, or returns `None` if the server has ended.
    async fn run<T, F>(&self, work: impl FnOnce(Resources) -> F + Send + 'static) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let working = self.work.run(|daemon| work(daemon.resources().clone()));
        working.await
    }
}
