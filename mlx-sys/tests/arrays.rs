//! Making, reading and dropping arrays, and what errors say.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mlx_sys::{Array, Axis, Device, Dtype, Error};

#[test]
fn values_come_back_as_they_went_in() {
    let floats = [1.5_f32, -2.0, f32::INFINITY, 0.0, 3.25, -0.0];
    let array = Array::from_slice(&floats, &[2, 3]).unwrap();
    assert_eq!((array.shape(), array.dtype(), array.nbytes()), (&[2, 3][..], Dtype::F32, 24));
    assert_eq!(array.to_vec::<f32>().unwrap(), floats);
    assert_eq!(
        array.transpose(&[1, 0]).unwrap().to_vec::<f32>().unwrap(),
        [1.5, 0.0, -2.0, 3.25, f32::INFINITY, -0.0]
    );
    assert_eq!(Array::from_slice(&[u64::MAX, 7], &[2]).unwrap().to_vec::<u64>().unwrap(), [u64::MAX, 7]);
    assert_eq!(Array::from_slice(&[-1_i8, 7], &[2]).unwrap().to_vec::<i8>().unwrap(), [-1, 7]);
    assert_eq!(Array::scalar(3_u32).unwrap().item::<u32>().unwrap(), 3);
    assert_eq!(Array::scalar(3_u32).unwrap().shape(), &[] as &[i32]);
    assert_eq!(Array::from_slice::<i32>(&[], &[0, 4]).unwrap().to_vec::<i32>().unwrap(), [] as [i32; 0]);
    let half = Array::from_bytes(&[0, 0x3c, 0, 0xc0], &[2], Dtype::F16).unwrap();
    assert_eq!(half.astype(Dtype::F32).unwrap().to_vec::<f32>().unwrap(), [1.0, -2.0]);
}

#[test]
fn constructors_fill_as_they_say() {
    assert_eq!(Array::zeros(&[3], Dtype::I32).unwrap().to_vec::<i32>().unwrap(), [0, 0, 0]);
    assert_eq!(Array::full(&[2, 1], 1.5_f32).unwrap().to_vec::<f32>().unwrap(), [1.5, 1.5]);
    let range = Array::arange(1.0, 7.0, 2.0, Dtype::U32).unwrap();
    assert_eq!(range.to_vec::<u32>().unwrap(), [1, 3, 5]);
    assert_eq!(Array::uninit(&[4, 5], Dtype::Bf16).unwrap().nbytes(), 40);
}

#[test]
fn a_shape_error_carries_the_message_of_mlx() {
    let a = Array::zeros(&[2, 3], Dtype::F32).unwrap();
    let error = a.matmul(&a).unwrap_err();
    assert!(matches!(error, Error::Mlx(_)));
    assert_eq!(
        error.to_string(),
        "[matmul] Last dimension of first input with shape (2,3) must match second to last dimension of second \
         input with shape (2,3)."
    );
    assert!(a.reshape(&[4]).unwrap_err().to_string().contains("reshape"));
    assert!(a.sum(5, Axis::Drop).unwrap_err().to_string().contains("axis"));
}

#[test]
fn wrong_sizes_and_types_are_refused() {
    assert!(Array::from_slice(&[1.0_f32; 5], &[2, 3]).is_err());
    assert!(Array::from_vec(vec![1.0_f32; 5], &[2, 3]).is_err());
    assert!(Array::from_slice(&[1.0_f32; 6], &[-2, -3]).is_err());
    assert!(Array::uninit(&[-1], Dtype::F32).is_err());
    assert!(Array::uninit(&[i32::MAX, i32::MAX, i32::MAX], Dtype::F32).is_err());
    let array = Array::zeros(&[2], Dtype::F32).unwrap();
    assert_eq!(array.to_vec::<i32>().unwrap_err(), Error::Dtype { found: Dtype::F32, wanted: Dtype::I32 });
    assert_eq!(array.item::<f32>().unwrap_err(), Error::Size { found: 2, wanted: 1 });
}

struct Counted(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn an_owner_lives_as_long_as_the_last_handle() {
    let drops = Arc::new(AtomicUsize::new(0));
    let owner = Counted((0..16).collect(), Arc::clone(&drops));
    let array = Array::from_owner(owner, &[16], Dtype::U8).unwrap();
    let copy = array.clone();
    drop(array);
    assert_eq!(copy.to_vec::<u8>().unwrap(), (0..16).collect::<Vec<u8>>());
    drop(copy);
    mlx_sys::synchronize().unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn an_owned_vector_is_not_written_to_by_a_donation() {
    let array = Array::from_vec(vec![1.0_f32; 1000], &[1000]).unwrap();
    let sum = array.add(&array).unwrap();
    let more = sum.add(&Array::scalar(1.0_f32).unwrap()).unwrap();
    assert_eq!(more.to_vec::<f32>().unwrap(), vec![3.0; 1000]);
    assert_eq!(array.to_vec::<f32>().unwrap(), vec![1.0; 1000]);
}

#[test]
fn the_cpu_is_there_and_the_version_is_the_pinned_one() {
    assert!(Device::Cpu.is_available());
    mlx_sys::set_default_device(Device::Cpu).unwrap();
    assert_eq!(mlx_sys::default_device(), Device::Cpu);
    assert!(mlx_sys::version().starts_with("0.32.4"), "{}", mlx_sys::version());
    assert!(mlx_sys::cpu_threads() >= 1);
    assert!(!Device::Cpu.info().unwrap().is_empty());
}

#[test]
fn async_work_is_done_after_waiting() {
    let array = Array::full(&[64, 64], 1.0_f32).unwrap();
    let product = array.matmul(&array).unwrap();
    mlx_sys::async_eval(&[&product]).unwrap();
    product.wait().unwrap();
    assert!(product.is_available());
    assert_eq!(product.to_vec::<f32>().unwrap(), vec![64.0; 64 * 64]);
}
